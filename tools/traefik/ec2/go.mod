module github.com/aws/aws-sdk-go-v2/service/ec2

go 1.26.0

require github.com/aws/aws-sdk-go-v2 v1.45.1
