// kfake serves franz-go's broker on 127.0.0.1: kfake PORT [FOLDER]. It keeps everything in memory, unless there is a folder.
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
	if len(os.Args) != 2 && len(os.Args) != 3 {
		log.Fatal("usage: kfake PORT [FOLDER]")
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	options := []kfake.Opt{kfake.Ports(port), kfake.AllowAutoTopicCreation()}
	for _, folder := range os.Args[2:] {
		options = append(options, kfake.DataDir(folder))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
}
