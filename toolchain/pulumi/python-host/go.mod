module symphony/toolchain/pulumi/python-host

go 1.26

tool github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python

require github.com/pulumi/pulumi/sdk/v3 v3.79.0
