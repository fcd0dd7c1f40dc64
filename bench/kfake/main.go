// kfake serves franz-go's in-memory broker on 127.0.0.1: kfake PORT
package main

import (
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: kfake PORT")
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	cluster, err := kfake.NewCluster(kfake.Ports(port), kfake.AllowAutoTopicCreation())
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
}
