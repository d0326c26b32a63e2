// Package kubernetes stands for the generated SDK, of whose thousands of types the provider names six, all for Helm
// charts and YAML components, which symphony never uses.
package kubernetes

// UntypedArgs holds the arguments of a resource of any type.
type UntypedArgs map[string]any
