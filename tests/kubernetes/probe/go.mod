// The program that runs in pods where the node itself is tested.
module jevmetrics.io/tests/kubernetes/probe

go 1.26.0
