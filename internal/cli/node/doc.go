// Package node has the commands that talk to the node.
package node
