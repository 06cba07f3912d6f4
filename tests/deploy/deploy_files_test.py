#!/usr/bin/env python3
"""The files of docs/deploy: YAML that fits its schema, cluster specs that fit the pods and containers around them, a Dockerfile
with everything that the programs are linked with.

usage: deploy_files_test.py FOLDER_OF_DEPLOY EXIT_CODE_H PROGRAM...
"""

import copy
import json
import os
import re
import subprocess
import sys

import yaml

import schema

FOLDER, EXIT_CODES = sys.argv[1:3]
PROGRAMS = sys.argv[3:]


def read(*path):
    with open(os.path.join(FOLDER, *path), encoding="utf-8") as file:
        return file.read()


def manifests(name):
    return list(yaml.safe_load_all(read("kubernetes", name)))


def environment(container):
    return {variable["name"]: variable for variable in container.get("env", [])}


def config_complaints(where, text, port=None):
    """Of a TF_CONFIG; what it says otherwise is checked by its users."""
    config = json.loads(text)
    job, index = config["task"]["type"], int(config["task"]["index"])
    if index >= len(config["cluster"].get(job, [])):
        return ["%s: no task %s:%d in its own cluster" % (where, job, index)]
    addresses = [address for addresses in config["cluster"].values() for address in addresses]
    found = [] if len(set(addresses)) == len(addresses) else ["%s: an address is there twice" % where]
    return found + ["%s: %s has another port than the container" % (where, address) for address in addresses
                    if port is not None and not address.endswith(":%d" % port)]


def manifests_fit_their_schemas():
    return [complaint for name in ("jobs.yaml", "tfjob.yaml") for document in manifests(name)
            for complaint in schema.manifest_complaints(document)]


def damaged_manifests_do_not():
    """Every key and value that is taken out or replaced must be missed where the schema wants it."""
    found = []
    job = manifests("jobs.yaml")[2]
    for damage in (lambda d: d.pop("spec"), lambda d: d["spec"].pop("template"),
                   lambda d: d["spec"].update(completion=2), lambda d: d["spec"].update(completions="2"),
                   lambda d: d["spec"].update(completions=True), lambda d: d["metadata"].update(name="Weir_PS"),
                   lambda d: d["spec"]["template"]["spec"].update(restartPolicy="Always"),
                   lambda d: d["spec"]["template"]["spec"].update(containers=[]),
                   lambda d: d["spec"]["template"]["spec"]["containers"][0].pop("image"),
                   lambda d: d["spec"]["template"]["spec"]["containers"][0]["args"].append(3),
                   lambda d: d.update(kind="Jobs")):
        damaged = copy.deepcopy(job)
        damage(damaged)
        if not schema.manifest_complaints(damaged):
            found.append("a damaged manifest was not noticed: %s" % json.dumps(damaged))
    return found


def jobs_of_kubernetes_find_one_another():
    documents = manifests("jobs.yaml")
    service = next(d for d in documents if d["kind"] == "Service")
    claims = {d["metadata"]["name"] for d in documents if d["kind"] == "PersistentVolumeClaim"}
    jobs = [d for d in documents if d["kind"] == "Job"]
    # What Kubernetes calls the pods: JOB-INDEX in the subdomain.
    pods = {"%s-%d.%s:%d" % (job["metadata"]["name"], index, job["spec"]["template"]["spec"]["subdomain"],
                             service["spec"]["ports"][0]["port"])
            for job in jobs for index in range(job["spec"]["completions"])}
    found = []
    for job in jobs:
        where, spec, template = job["metadata"]["name"], job["spec"], job["spec"]["template"]
        container = template["spec"]["containers"][0]
        config = environment(container)["TF_CONFIG"]["value"]
        found += config_complaints(where, config.replace("$(TASK_INDEX)", str(spec["completions"] - 1)),
                                   container["ports"][0]["containerPort"])
        probe = container.get("readinessProbe")
        if probe and probe["grpc"]["port"] != container["ports"][0]["containerPort"]:
            found.append("%s: the probe asks at another port than the task's" % where)
        cluster = json.loads(config)["cluster"]
        if {address for addresses in cluster.values() for address in addresses} != pods:
            found.append("%s: the cluster %s is not the pods %s" % (where, cluster, sorted(pods)))
        if template["spec"]["subdomain"] != service["metadata"]["name"]:
            found.append("%s: its subdomain is no service" % where)
        if not service["spec"]["selector"].items() <= template["metadata"]["labels"].items():
            found.append("%s: the service does not select it" % where)
        if spec["completionMode"] != "Indexed" or spec["parallelism"] != spec["completions"]:
            found.append("%s: its tasks must all run at once, each with an index" % where)
        names = [variable["name"] for variable in container["env"]]
        if names.index("TASK_INDEX") > names.index("TF_CONFIG"):
            found.append("%s: $(TASK_INDEX) is not known yet where TF_CONFIG uses it" % where)
        found += ["%s: no claim %s" % (where, volume["persistentVolumeClaim"]["claimName"])
                  for volume in template["spec"].get("volumes", [])
                  if volume["persistentVolumeClaim"]["claimName"] not in claims]
    return found


def only_codes_that_are_no_use_to_repeat_end_a_job():
    with open(EXIT_CODES, encoding="utf-8") as file:
        codes = {name: int(code) for name, code in re.findall(r"(kExit\w+) = (\d+);", file.read())}
    # A pod that was superseded has a successor, whose job goes on.
    final = sorted(code for name, code in codes.items() if 0 < code < 128 and name != "kExitSuperseded")
    return ["%s: ends at the exit codes %s, must at %s" % (d["metadata"]["name"], rule["onExitCodes"]["values"], final)
            for d in manifests("jobs.yaml") if d["kind"] == "Job" for rule in d["spec"]["podFailurePolicy"]["rules"]
            if rule["onExitCodes"] != {"operator": "In", "values": final}]


def tfjob_is_what_the_operator_wants():
    found = []
    for job, replicas in manifests("tfjob.yaml")[0]["spec"]["tfReplicaSpecs"].items():
        container = replicas["template"]["spec"]["containers"][0]
        if container["name"] != "tensorflow":
            found.append("%s: the operator gives TF_CONFIG to a container called tensorflow only" % job)
        if "tfjob-port" not in [port.get("name") for port in container["ports"]]:
            found.append("%s: the operator looks for the port tfjob-port" % job)
        if replicas["restartPolicy"] != "ExitCode":
            found.append("%s: exit codes do not decide about a restart" % job)
        if "TF_CONFIG" in environment(container):
            found.append("%s: TF_CONFIG is the operator's" % job)
    return found


def pod_templates(name):
    specs = [document["spec"] for document in manifests(name)]
    return [replicas["template"] for spec in specs for replicas in spec.get("tfReplicaSpecs", {}).values()] + [
        spec["template"] for spec in specs if "template" in spec]


def every_container_listens_and_has_the_token():
    found = []
    for name in ("jobs.yaml", "tfjob.yaml"):
        for container in (c for template in pod_templates(name) for c in template["spec"]["containers"]):
            variables = environment(container)
            if variables["WEIR_LISTEN"].get("value") != "0.0.0.0":
                found.append("%s: a pod must not listen at its name alone" % name)
            if variables["WEIR_JOB_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] != "weir-token":
                found.append("%s: the token must come from the secret" % name)
    return found


def volumes_are_the_users():
    """A new volume is root's, unless the image has a folder there that is not, or the pod gives it to a group."""
    text = read("Dockerfile")
    last = text[text.rindex("FROM"):]
    user = re.search(r"^USER (\w+)$", last, re.MULTILINE).group(1)
    number = re.search(r"useradd .*--uid (\d+) %s" % user, last).group(1)
    owned = set(re.search(r"install --directory --owner=%s \S+ ([^&\n]*)" % user, last).group(1).split())
    found = ["docker-compose.yml: %s mounts a volume at %s, which the Dockerfile does not make" % (name, volume)
             for name, service in yaml.safe_load(read("docker-compose.yml"))["services"].items()
             for volume in service["volumes"] if volume.split(":")[1] not in owned]
    for name in ("jobs.yaml", "tfjob.yaml"):
        found += ["%s: a pod with volumes is not given to the group %s" % (name, number) for template in pod_templates(name)
                  if template["spec"].get("volumes")
                  and template["spec"].get("securityContext", {}).get("fsGroup") != int(number)]
    return found


def compose_file_is_one_cluster():
    compose = yaml.safe_load(read("docker-compose.yml"))
    found = schema.complaints(compose, schema.COMPOSE, "docker-compose.yml")
    clusters = set()
    for name, service in compose["services"].items():
        config = json.loads(service["environment"]["TF_CONFIG"])
        found += config_complaints(name, service["environment"]["TF_CONFIG"])
        clusters.add(json.dumps(config["cluster"]))
        own = config["cluster"][config["task"]["type"]][config["task"]["index"]]
        if own.split(":")[0] != name:
            found.append("%s: its address is %s" % (name, own))
        if "WEIR_JOB_TOKEN" not in service["environment"]["WEIR_JOB_TOKEN"]:
            found.append("%s: the token must come from who starts it" % name)
        found += ["%s: no volume %s" % (name, volume) for volume in service["volumes"]
                  if volume.split(":")[0] not in compose["volumes"]]
    return found + (["the services disagree about the cluster"] if len(clusters) != 1 else [])


def dockerfile_has_what_the_programs_need():
    text = re.sub(r"\\\n", " ", read("Dockerfile"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "CMD"}
    found = ["Dockerfile: what is %s?" % line for line in lines if line.split()[0] not in known]
    if not lines[0].startswith("FROM "):
        found.append("Dockerfile: does not begin with FROM")
    built = {os.path.basename(program) for program in PROGRAMS}
    found += ["Dockerfile: does not copy %s" % name for name in built if not re.search(r"/%s\b" % name, text)]
    installed = set(re.search(r"apt-get install ([^&]*)", text[text.rindex("FROM"):]).group(1).split())
    for program in PROGRAMS:
        # Those that it names itself; what these need comes with their packages.
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", program)))
        for name, library in re.findall(r"(\S+) => (/\S+)", output_of("ldd", program)):
            package = package_of(library) if name in needed else None
            if package and package not in installed | {"libc6", "libgcc-s1"}:
                found.append("Dockerfile: %s needs %s of %s" % (os.path.basename(program), library, package))
    return found


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def package_of(library):
    # /lib is a link to /usr/lib, and dpkg knows either name.
    for path in (library, os.path.realpath(library), library.replace("/lib/", "/usr/lib/", 1)):
        owner = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
        if owner.returncode == 0:
            return owner.stdout.split(":")[0]
    return None


def main():
    failed = 0
    for check in (manifests_fit_their_schemas, damaged_manifests_do_not, jobs_of_kubernetes_find_one_another,
                  only_codes_that_are_no_use_to_repeat_end_a_job, tfjob_is_what_the_operator_wants,
                  every_container_listens_and_has_the_token, volumes_are_the_users, compose_file_is_one_cluster,
                  dockerfile_has_what_the_programs_need):
        found = check()
        failed += bool(found)
        print("\n".join(found + ["[%s] deploy.%s (0 ms)" % ("  FAILED  " if found else "       OK ", check.__name__)]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
