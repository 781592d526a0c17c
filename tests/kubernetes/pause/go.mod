// The program that holds the namespaces of a pod in the cluster of the tests.
module jevmetrics.io/tests/kubernetes/pause

go 1.26.0
