// Package types has the types of AWS's Cloud Map that loadbalancingexporter names.
package types

// HealthStatusFilter says which instances are looked for.
type HealthStatusFilter string

// HealthStatusFilterHealthy asks for those that are well.
const HealthStatusFilterHealthy HealthStatusFilter = "HEALTHY"

// HttpInstanceSummary is an instance.
type HttpInstanceSummary struct {
	Attributes map[string]string
}
