// Sends single-record Produce requests at a rate through franz-go and prints how many requests it made of them, and in how
// many seconds: franz ADDRESS TOPIC RATE SECONDS IN_FLIGHT.
//
// Of two values of 600 bytes only one fits the smallest batch that franz-go allows (1 KiB), and the topic has one partition, so
// that each request holds one record.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const valueBytes = 600

// Counts Produce requests.
type hook struct{ requests atomic.Int64 }

func (h *hook) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == 0 && err == nil {
		h.requests.Add(1)
	}
}

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: franz ADDRESS TOPIC RATE SECONDS IN_FLIGHT")
		os.Exit(2)
	}
	rate, err := strconv.Atoi(os.Args[3])
	check(err)
	seconds, err := strconv.Atoi(os.Args[4])
	check(err)
	count := &hook{}
	inFlight, err := strconv.Atoi(os.Args[5])
	check(err)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.DefaultProduceTopic(os.Args[2]),
		kgo.RequiredAcks(kgo.LeaderAck()),
		kgo.DisableIdempotentWrite(),
		kgo.MaxProduceRequestsInflightPerBroker(inFlight),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(1<<10),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.Dialer((&net.Dialer{}).DialContext),
		kgo.WithHooks(count),
	)
	check(err)
	value := bytes.Repeat([]byte("x"), valueBytes)
	var failed atomic.Int64
	total := rate * seconds
	start := time.Now()
	for sent := 0; sent < total; {
		// What is due by now: as kafka-producer-perf-test has it, in turns of a millisecond or so.
		due := min(int(time.Since(start).Seconds()*float64(rate))+1, total)
		for ; sent < due; sent++ {
			client.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Add(1)
				}
			})
		}
		time.Sleep(time.Millisecond)
	}
	check(client.Flush(context.Background()))
	took := time.Since(start).Seconds()
	if failed.Load() > 0 {
		check(fmt.Errorf("%d records were not stored", failed.Load()))
	}
	fmt.Println(count.requests.Load(), took)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "franz:", err)
		os.Exit(1)
	}
}
