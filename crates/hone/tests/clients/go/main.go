// Takes options of franz-go and Sarama as `hone batch settings` wrote them, and has both clients look at them. No broker is asked.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

var _ = time.Millisecond

func main() {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, options()...)...)
	if err != nil {
		fmt.Println("franz-go:", err)
		os.Exit(1)
	}
	client.Close()
	config := sarama.NewConfig()
	configure(config)
	if err := config.Validate(); err != nil {
		fmt.Println("sarama:", err)
		os.Exit(1)
	}
	fmt.Println("both took it")
}
