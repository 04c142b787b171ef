// Command kfake runs franz-go's broker for tests, which speaks the Kafka protocol, as a service of its own: a Kafka-API
// server in Go that nobody here has written, to try profile-guided optimisation on.
//
//	kfake -listen 127.0.0.1:9092 -pprof 127.0.0.1:6060
//
// It keeps all records in memory and never forgets one, unless -data names a folder. It prints `ready ADDRESS pprof ADDRESS`
// once it listens, and ends at SIGTERM with code 0.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9092", "address of the broker: an IP and a port")
	profile := flag.String("pprof", "127.0.0.1:0", "address of Go's profiles; nothing for none")
	data := flag.String("data", "", "folder of the log; nothing to keep it in memory")
	partitions := flag.Int("partitions", 4, "partitions of a topic that is made by being asked for")
	flag.Parse()
	if err := serve(*listen, *profile, *data, *partitions); err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
}

func serve(listen, profile, data string, partitions int) error {
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM, syscall.SIGINT)
	options, err := options(listen, data, partitions)
	if err != nil {
		return err
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return err
	}
	defer cluster.Close()
	ready := "ready " + cluster.ListenAddrs()[0]
	if profile != "" {
		side, err := net.Listen("tcp", profile)
		if err != nil {
			return err
		}
		ready += " pprof " + side.Addr().String()
		go http.Serve(side, profiles())
	}
	fmt.Println(ready)
	<-ending
	return nil
}

func options(listen, data string, partitions int) ([]kfake.Opt, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("the port %q is no number", port)
	}
	if net.ParseIP(host) == nil {
		return nil, errors.New("the address to listen on must be an IP and a port")
	}
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(partitions),
		kfake.Ports(int(number)),
		// It asks for its own choice of host; the port is ours already.
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return net.Listen(network, net.JoinHostPort(host, port))
		}),
	}
	if data != "" {
		options = append(options, kfake.DataDir(data))
	}
	return options, nil
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	return mux
}
