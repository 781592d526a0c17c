// Package servicediscovery is in the place of AWS's client for Cloud Map: it has what loadbalancingexporter names, and
// finds nothing. We balance over DNS; of the client, which is large and needs an account, nothing would ever run.
package servicediscovery

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/servicediscovery/types"
)

// DiscoverInstancesInput is what is looked for.
type DiscoverInstancesInput struct {
	NamespaceName      *string
	ServiceName        *string
	HealthStatus       types.HealthStatusFilter
	OwnerAccount       *string
	MaxResults         *int32
	OptionalParameters map[string]string
	QueryParameters    map[string]string
}

// DiscoverInstancesOutput is what was found.
type DiscoverInstancesOutput struct {
	Instances []types.HttpInstanceSummary
}

// Client finds nothing.
type Client struct{}

// NewFromConfig takes any configuration, for none is used.
func NewFromConfig(any) *Client {
	return &Client{}
}

// DiscoverInstances always fails, and says why.
func (*Client) DiscoverInstances(context.Context, *DiscoverInstancesInput) (*DiscoverInstancesOutput, error) {
	return nil, errors.New("this Collector is built without AWS Cloud Map")
}
