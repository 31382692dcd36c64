package main

import (
	"fmt"

	"github.com/actionproof/mediator/test/deploy/cluster"
)

func main() { fmt.Println(cluster.Build()) }
