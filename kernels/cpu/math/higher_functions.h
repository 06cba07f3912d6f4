// Bessel functions, and integrals that have no simpler form, for real arguments in double.
//
// NaN where a function is not defined and for NaN. Never loops longer than for its hardest argument.
// Sources: NIST Digital Library of Mathematical Functions, chapters 6, 7, 10 and 25.12
// (https://dlmf.nist.gov); G. B. Rybicki, Computers in Physics 3 (1989), 85-87, for Dawson's integral.
#pragma once

namespace weir {

// At infinity I and J are NaN, and at +infinity Y, Ei and Spence's function, as TensorFlow has it.

// Modified Bessel functions of the first and second kind, of order 0 or 1, times exp(-|x|) and exp(x): these
// do not overflow. K is infinite for x <= 0, as TensorFlow has it.
double ScaledBesselI(int order, double x);
double ScaledBesselK(int order, double x);
// The same without the factor.
double BesselI(int order, double x);
double BesselK(int order, double x);
// Bessel functions of the first and second kind, of order 0 or 1. Y is -infinity for x <= 0.
double BesselJ(int order, double x);
double BesselY(int order, double x);

// exp(-x^2) times the integral of exp(t^2) from 0 to x.
double DawsonIntegral(double x);
// The principal value of the integral of exp(t) / t from -infinity to x; x >= 0, as TensorFlow has it.
double ExponentialIntegral(double x);
// The integrals of cos(pi t^2 / 2) and sin(pi t^2 / 2) from 0 to x.
double FresnelCosine(double x);
double FresnelSine(double x);
// The integral of log(t) / (1 - t) from 1 to x, which is the dilogarithm of 1 - x; x >= 0.
double Spence(double x);

}  // namespace weir
