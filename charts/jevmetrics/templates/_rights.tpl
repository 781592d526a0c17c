{{/*
What the operator may do, each right with its reason: the list of operator/src/rights.rs, which is in docs/security.md.
A test holds this file to it.

An operator can only give data planes what it has itself: get and watch on ConfigMaps.
*/}}

{{/* Where policies are. */}}
{{- define "jevmetrics.rights" -}}
# what is wanted
- apiGroups: [jevmetrics.io]
  resources: [jevmetricspolicies]
  verbs: [get, list, watch]
# what is there
- apiGroups: [jevmetrics.io]
  resources: [jevmetricspolicies/status]
  verbs: [patch]
# the pods of a data plane
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
# settings are deleted when no ReplicaSet wants them
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list]
# who is a member, why a rollout does not get on, and whom to ask
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# settings, live object, and what Collectors in front read; get and watch are passed on to data planes, each for its live object
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# where senders send, and where Collectors in front find the pods
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
# who the pods are
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
# what the pods may do: read their live object
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles]
  verbs: [get, list, watch, create, patch, delete]
# that the pods may do it
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, watch, create, patch, delete]
# a drain takes one pod at a time
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# to name what is missing, and to ask pods over mutual TLS; never listed or watched
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
# what has happened to a policy
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* Where the Lease is: the release's namespace. What does not exist yet has no name to hold a right to. */}}
{{- define "jevmetrics.leaseRights" -}}
# one operator leads
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
# one operator leads
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "jevmetrics.operator" . }}]
  verbs: [get, update]
{{- end }}
