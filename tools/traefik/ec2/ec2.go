// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ec2 stands for a client of Amazon in the build of Traefik: compiling that one takes gigabytes and minutes, for a provider
// that no test turns on.
package ec2

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Client asks nobody.
type Client struct{}

// Options are none.
type Options struct{}

// DescribeInstancesInput names instances.
type DescribeInstancesInput struct{ InstanceIds []string }

// DescribeInstancesOutput would have them.
type DescribeInstancesOutput struct{ Reservations []types.Reservation }

// DescribeInstancesPaginator refuses.
type DescribeInstancesPaginator struct{}

// NewFromConfig is a Client.
func NewFromConfig(aws.Config, ...func(*Options)) *Client { return &Client{} }

// NewDescribeInstancesPaginator is one.
func NewDescribeInstancesPaginator(*Client, *DescribeInstancesInput) *DescribeInstancesPaginator {
	return &DescribeInstancesPaginator{}
}

// HasMorePages leads to the refusal.
func (*DescribeInstancesPaginator) HasMorePages() bool { return true }

// NextPage refuses.
func (*DescribeInstancesPaginator) NextPage(context.Context, ...func(*Options)) (*DescribeInstancesOutput, error) {
	return nil, errors.New("this build of Traefik has no client of EC2")
}
