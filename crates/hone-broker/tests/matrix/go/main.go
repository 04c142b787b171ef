// Command matrix plays the cells of the client matrix with franz-go (kgo and kadm).
//
// It is started as `matrix BOOTSTRAP`; then every line of stdin is one cell, `NAME key=value ...`, and is answered by
// one JSON object a step and a last one, {"step":"end"}. Judging is left to the caller: the program only counts.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 45 * time.Second

type fields = map[string]any

// parameters of a cell.
type parameters map[string]string

func (p parameters) number(name string) int {
	number, err := strconv.Atoi(p[name])
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	return number
}

func say(step string, what fields) {
	line := fields{"step": step}
	for name, value := range what {
		line[name] = value
	}
	encoded, err := json.Marshal(line)
	must(err)
	fmt.Println(string(encoded))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// attempt plays a step on its own: what fails is said, and the next step is played all the same.
func attempt(step string, action func() fields) {
	defer func() {
		if failed := recover(); failed != nil {
			say(step, fields{"error": fmt.Sprint(failed)})
		}
	}()
	say(step, action())
}

// waitFor panics when the condition does not hold in time.
func waitFor(what func() string, condition func() bool) {
	for begun := time.Now(); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > patience {
			panic(fmt.Sprintf("%s after %v", what(), patience))
		}
	}
}

func within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	time.AfterFunc(patience, cancel)
	return ctx
}

func value(number int) []byte {
	return fmt.Appendf(nil, "value %d of a record that is long enough to be worth compressing", number)
}

var bootstrap string

func client(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(bootstrap), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.RetryTimeout(patience))
	made, err := kgo.NewClient(options...)
	must(err)
	return made
}

func admin() *kadm.Client { return kadm.NewClient(client()) }

func main() {
	bootstrap = os.Args[1]
	cells := map[string]func(parameters){
		"produce": produce, "round-trip": roundTrip, "consume": consume, "resume": resume, "group": group,
		"static": static, "admin-topic": adminTopic, "admin-log": adminLog, "admin-groups": adminGroups,
		"admin-delete": adminDelete, "txn": transaction, "txn-offsets": transactionOffsets, "txn-open": transactionOpen,
		"txn-fence": transactionFence,
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		given := parameters{}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			given[name] = value
		}
		play(words[0], cells[words[0]], given)
	}
}

func play(name string, cell func(parameters), given parameters) {
	defer say("end", nil)
	defer func() {
		if failed := recover(); failed != nil {
			say("failed", fields{"error": fmt.Sprint(failed)})
		}
	}()
	if cell == nil {
		panic("there is no cell " + name)
	}
	cell(given)
}

func send(producer *kgo.Client, records ...*kgo.Record) {
	must(producer.ProduceSync(within(), records...).FirstErr())
}

// values makes records first to end.
func values(first, end int, record func(number int) *kgo.Record) []*kgo.Record {
	var records []*kgo.Record
	for number := first; number < end; number++ {
		made := record(number)
		made.Value = value(number)
		records = append(records, made)
	}
	return records
}

func produce(p parameters) {
	options := []kgo.Opt{kgo.ProducerLinger(50 * time.Millisecond)}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options = append(options, kgo.ProducerBatchCompression(codecs[p["codec"]]))
	acks := map[string]kgo.Acks{"all": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck()}
	options = append(options, kgo.RequiredAcks(acks[p["acks"]]))
	if p["idempotent"] == "false" {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	producer := client(options...)
	defer producer.Close()
	send(producer, values(0, p.number("records"), func(number int) *kgo.Record {
		return &kgo.Record{Topic: p["topic"], Key: fmt.Appendf(nil, "key %d", number)}
	})...)
	say("produce", fields{"records": p.number("records")})
}

func text(bytes []byte) any {
	if bytes == nil {
		return nil
	}
	return string(bytes)
}

// roundTrip writes null and empty keys and values, repeated headers and timestamps, and reads them back.
func roundTrip(p parameters) {
	begin := int64(p.number("timestamp"))
	sent := []*kgo.Record{
		{Value: []byte("null key")},
		{Key: []byte("tombstone")},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("headers"), Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte{}}, {Key: "a", Value: []byte("2")},
		}},
	}
	for index, record := range sent {
		record.Topic, record.Timestamp = p["topic"], time.UnixMilli(begin+int64(index))
	}
	producer := client()
	send(producer, sent...)
	producer.Close()
	said := []fields{}
	for _, record := range read(p["topic"], 1, len(sent), kgo.ReadUncommitted()) {
		headers := [][]any{}
		for _, header := range record.Headers {
			headers = append(headers, []any{header.Key, text(header.Value)})
		}
		said = append(said, fields{"key": text(record.Key), "value": text(record.Value), "headers": headers,
			"timestamp": record.Timestamp.UnixMilli()})
	}
	say("round-trip", fields{"records": said})
}

// poll waits for records, not longer than told.
func poll(consumer *kgo.Client, longest time.Duration) []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	fetches := consumer.PollRecords(ctx, 500)
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			panic(failed.Err)
		}
	}
	return fetches.Records()
}

// readOn reads from a consumer until there is enough.
func readOn(consumer *kgo.Client, wanted int) []*kgo.Record {
	var found []*kgo.Record
	waitFor(func() string { return fmt.Sprintf("%d of %d records read", len(found), wanted) }, func() bool {
		found = append(found, poll(consumer, 200*time.Millisecond)...)
		return len(found) >= wanted
	})
	return found
}

// read reads that many records from the start, and what comes in half a second more: there should be none.
func read(topic string, partitions, wanted int, isolation kgo.IsolationLevel) []*kgo.Record {
	from := map[int32]kgo.Offset{}
	for partition := range partitions {
		from[int32(partition)] = kgo.NewOffset().AtStart()
	}
	consumer := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(isolation))
	defer consumer.Close()
	return append(readOn(consumer, wanted), poll(consumer, 500*time.Millisecond)...)
}

func consume(p parameters) {
	type sum struct {
		Records int    `json:"records"`
		CRC     uint32 `json:"crc"`
	}
	isolation := kgo.ReadUncommitted()
	if p["isolation"] == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	sums := map[int32]*sum{}
	for _, record := range read(p["topic"], p.number("partitions"), p.number("records"), isolation) {
		one := sums[record.Partition]
		if one == nil {
			one = &sum{}
			sums[record.Partition] = one
		}
		one.Records++
		one.CRC = crc32.Update(one.CRC, crc32.IEEETable, append(record.Value, '\n'))
	}
	say("consume", fields{"partitions": sums})
}

// readAndCommit reads until there is enough, commits exactly what was wanted, and leaves.
func readAndCommit(topic, group string, wanted int) []*kgo.Record {
	consumer := client(kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	taken := readOn(consumer, wanted)[:wanted]
	must(consumer.CommitRecords(within(), taken...))
	return taken
}

func resume(p parameters) {
	first := p.number("first")
	early := readAndCommit(p["topic"], p["group"], first)
	late := readAndCommit(p["topic"], p["group"], p.number("records")-first)
	distinct := map[string]bool{}
	for _, record := range append(early, late...) {
		distinct[string(record.Value)] = true
	}
	say("resume", fields{"first": len(early), "second": len(late), "distinct": len(distinct)})
}
