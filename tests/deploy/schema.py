"""Schemas of the few kinds of files in docs/deploy, and a checker for them.

A schema is a type (str, int, bool, dict), a set of allowed values, a compiled pattern for a string, a list of one
schema for lists, or a dict {key: schema} for objects. A key that ends with "!" must be there; "*" stands for any key.
What Kubernetes, the training operator and Compose allow beside that is left out: a key that is not here is a mistake
until somebody adds it.
"""

import re

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
QUANTITY = re.compile(r"\d+(\.\d+)?(m|Ki|Mi|Gi|Ti)?")

METADATA = {"name!": NAME, "labels": {"*": str}}
VARIABLE = {
    "name!": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"),
    "value": str,
    "valueFrom": {"fieldRef": {"fieldPath!": str}, "secretKeyRef": {"name!": NAME, "key!": str}},
}
CONTAINER = {
    "name!": NAME,
    "image!": str,
    "args": [str],
    "ports": [{"name": NAME, "containerPort!": int}],
    "readinessProbe": {"grpc!": {"port!": int}},
    "env": [VARIABLE],
    "volumeMounts": [{"name!": NAME, "mountPath!": re.compile(r"/.*")}],
    "resources": {"requests": {"cpu": QUANTITY, "memory": QUANTITY}},
}


def pod(restart_policies):
    return {
        "metadata": {"labels": {"*": str}},
        "spec!": {
            "subdomain": NAME,
            "restartPolicy" + ("!" if restart_policies else ""): restart_policies or set(),
            "securityContext": {"fsGroup!": int},
            "containers!": [CONTAINER],
            "volumes": [{"name!": NAME, "persistentVolumeClaim!": {"claimName!": NAME}}],
        },
    }


REPLICAS = {"replicas!": int, "restartPolicy!": {"Always", "OnFailure", "Never", "ExitCode"}, "template!": pod(None)}

KINDS = {
    ("v1", "Service"): {
        "apiVersion!": str, "kind!": str, "metadata!": METADATA,
        "spec!": {
            "clusterIP": {"None"},
            "publishNotReadyAddresses": bool,
            "selector!": {"*": str},
            "ports!": [{"name": NAME, "port!": int}],
        },
    },
    ("v1", "PersistentVolumeClaim"): {
        "apiVersion!": str, "kind!": str, "metadata!": METADATA,
        "spec!": {
            "accessModes!": [{"ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"}],
            "resources!": {"requests!": {"storage!": QUANTITY}},
        },
    },
    ("batch/v1", "Job"): {
        "apiVersion!": str, "kind!": str, "metadata!": METADATA,
        "spec!": {
            "completions": int, "parallelism": int, "backoffLimit": int,
            "completionMode": {"Indexed", "NonIndexed"},
            "podFailurePolicy": {"rules!": [{
                "action!": {"FailJob", "Ignore", "Count"},
                "onExitCodes!": {"operator!": {"In", "NotIn"}, "values!": [int]},
            }]},
            "template!": pod({"Never", "OnFailure"}),
        },
    },
    ("kubeflow.org/v1", "TFJob"): {
        "apiVersion!": str, "kind!": str, "metadata!": METADATA,
        "spec!": {
            "runPolicy": {"cleanPodPolicy": {"None", "Running", "All"}, "backoffLimit": int},
            "tfReplicaSpecs!": {"Chief": REPLICAS, "Master": REPLICAS, "PS": REPLICAS, "Worker!": REPLICAS,
                                "Evaluator": REPLICAS},
        },
    },
}

COMPOSE = {
    "x-task": dict,
    "services!": {"*": {
        "image!": str,
        "build": {"context!": str, "dockerfile": str},
        "command": [str],
        "restart": {"no", "always", "on-failure", "unless-stopped"},
        "stop_grace_period": str,
        "volumes": [str],
        "environment": {"*": str},
    }},
    "volumes": {"*": type(None)},
}


def complaints(value, schema, path=""):
    """What of `value` does not fit, a line each."""
    if isinstance(schema, dict):
        return object_complaints(value, schema, path)
    if isinstance(schema, list):
        if not isinstance(value, list) or not value:
            return ["%s: must be a list that is not empty" % path]
        return [c for i, item in enumerate(value) for c in complaints(item, schema[0], "%s[%d]" % (path, i))]
    if isinstance(schema, set):
        return [] if isinstance(value, str) and value in schema else ["%s: %r is not one of %s" % (path, value, sorted(schema))]
    if isinstance(schema, re.Pattern):
        return [] if isinstance(value, str) and schema.fullmatch(value) else ["%s: %r is malformed" % (path, value)]
    # True is an int in Python, and nowhere else.
    fits = isinstance(value, schema) and (schema is bool or not isinstance(value, bool))
    return [] if fits else ["%s: %r is not a %s" % (path, value, schema.__name__)]


def object_complaints(value, schema, path):
    if not isinstance(value, dict):
        return ["%s: must be an object" % path]
    known = {key.rstrip("!"): (key.endswith("!"), inner) for key, inner in schema.items()}
    found = ["%s.%s is missing" % (path, key) for key, (is_needed, _) in known.items() if is_needed and key not in value]
    for key, inner in value.items():
        if key not in known and "*" not in known:
            found.append("%s.%s is not known" % (path, key))
        else:
            found += complaints(inner, known.get(key, known.get("*"))[1], "%s.%s" % (path, key))
    return found


def manifest_complaints(document):
    """Of one Kubernetes object."""
    if not isinstance(document, dict):
        return ["a document is no object"]
    kind = (document.get("apiVersion"), document.get("kind"))
    if kind not in KINDS:
        return ["%s %s is not known" % kind]
    return complaints(document, KINDS[kind], "%s %s" % (kind[1], document.get("metadata", {}).get("name")))
