// Sends a load of Hone's through franz-go (kgo), by the line protocol of docs/client-protocol.md.
//
//	go build -o /tmp/client . && hone load 127.0.0.1:9092 --client /tmp/client --client-set linger_ms=5
//
// Settings: linger_ms, batch_max_bytes, max_buffered_records, max_in_flight (requests a broker; 5 at most when idempotent),
// partitioner (sticky-key: kgo's own default, or round-robin). What is not set is kgo's default.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// A call that took longer than this had to wait for room in the client.
const blocked = time.Millisecond

// What Hone asks for.
type settings struct {
	bootstrap, topic, acks, compression string
	idempotent                          bool
	timeout                             time.Duration
	producers                           int
	records, turns                      string
	security                            map[string]string
	own                                 [][2]string
}

// A record to send; key is nil for none.
type material struct{ key, value []byte }

// The way back to Hone: whole lines, flushed many times a second.
type report struct {
	lock sync.Mutex
	out  *bufio.Writer
}

func (r *report) line(format string, arguments ...any) {
	r.lock.Lock()
	defer r.lock.Unlock()
	fmt.Fprintf(r.out, format+"\n", arguments...)
}

func (r *report) flush() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.out.Flush()
}

// CLOCK_MONOTONIC, which Hone has too. Go's own monotonic clock is the same one, but it does not show its value: so it is
// read once, and time.Since counts on from there.
var origin, originNs = func() (time.Time, int64) {
	var now syscall.Timespec
	before := time.Now()
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&now)), 0)
	return before.Add(time.Since(before) / 2), now.Nano()
}()

func monotonicNs() int64 { return originNs + int64(time.Since(origin)) }

func main() {
	out := &report{out: bufio.NewWriterSize(os.Stdout, 1<<16)}
	defer out.flush()
	if err := run(bufio.NewReaderSize(os.Stdin, 1<<17), out); err != nil {
		out.line("error %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

func run(in *bufio.Reader, out *report) error {
	asked, err := readSettings(in)
	if err != nil {
		return err
	}
	records, err := readRecords(asked.records)
	if err != nil {
		return err
	}
	turns, err := readTurns(asked)
	if err != nil {
		return err
	}
	options, err := options(asked, out)
	if err != nil {
		return err
	}
	var clients []*kgo.Client
	for range asked.producers {
		client, err := kgo.NewClient(options...)
		if err != nil {
			return err
		}
		defer client.Close()
		clients = append(clients, client)
	}
	if err := clients[0].Ping(context.Background()); err != nil {
		return err
	}
	out.line("ready franz-go %s", version())
	out.flush()
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			out.flush()
		}
	}()
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if verb != "go" {
			continue
		}
		start, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return fmt.Errorf("a start that is no number: %q", line)
		}
		if err := stretch(in, out, clients, records, turns, start); err != nil {
			return err
		}
		out.line("done")
		out.flush()
	}
}

func readSettings(in *bufio.Reader) (settings, error) {
	asked := settings{producers: 1, acks: "all", compression: "none", timeout: 10 * time.Second}
	asked.security = map[string]string{}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return asked, fmt.Errorf("the input ended before prepare: %w", err)
		}
		verb, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		switch verb {
		case "bootstrap":
			asked.bootstrap = rest
		case "topic":
			asked.topic = rest
		case "acks":
			asked.acks = rest
		case "compression":
			asked.compression = rest
		case "idempotent":
			asked.idempotent = rest == "true"
		case "timeout_ms":
			ms, err := strconv.Atoi(rest)
			if err != nil {
				return asked, err
			}
			asked.timeout = time.Duration(ms) * time.Millisecond
		case "producers":
			if asked.producers, err = strconv.Atoi(rest); err != nil || asked.producers < 1 {
				return asked, fmt.Errorf("producers %q", rest)
			}
		case "records":
			asked.records = rest
		case "turns":
			asked.turns = rest
		case "tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "sasl_mechanism", "sasl_user", "sasl_password":
			asked.security[verb] = rest
		case "set":
			key, value, _ := strings.Cut(rest, " ")
			asked.own = append(asked.own, [2]string{key, value})
		case "prepare":
			return asked, nil
		}
	}
}

func readRecords(path string) ([]material, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	take := func() ([]byte, error) {
		if len(bytes) < 4 {
			return nil, errors.New("the file of records is torn")
		}
		length := int32(binary.BigEndian.Uint32(bytes))
		bytes = bytes[4:]
		if length < 0 {
			return nil, nil
		}
		if int(length) > len(bytes) {
			return nil, errors.New("the file of records is torn")
		}
		taken := bytes[:length]
		bytes = bytes[length:]
		return taken, nil
	}
	var records []material
	for len(bytes) > 0 {
		key, err := take()
		if err != nil {
			return nil, err
		}
		value, err := take()
		if err != nil {
			return nil, err
		}
		records = append(records, material{key, value})
	}
	if len(records) == 0 {
		return nil, errors.New("there are no records to send")
	}
	return records, nil
}

// The producer of each record, in turn; without a file, all of them one after the other.
func readTurns(asked settings) ([]int, error) {
	var turns []int
	if asked.turns == "" {
		for producer := range asked.producers {
			turns = append(turns, producer)
		}
		return turns, nil
	}
	bytes, err := os.ReadFile(asked.turns)
	if err != nil {
		return nil, err
	}
	for ; len(bytes) >= 4; bytes = bytes[4:] {
		turns = append(turns, int(binary.BigEndian.Uint32(bytes))%asked.producers)
	}
	if len(turns) == 0 || len(bytes) > 0 {
		return nil, errors.New("the file of turns is torn")
	}
	return turns, nil
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var partitioners = map[string]kgo.Partitioner{
	"sticky-key":  kgo.StickyKeyPartitioner(nil),
	"round-robin": kgo.RoundRobinPartitioner(),
}

func options(asked settings, out *report) ([]kgo.Opt, error) {
	codec, known := codecs[asked.compression]
	if !known {
		return nil, fmt.Errorf("the codec %q is unknown", asked.compression)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(asked.bootstrap),
		kgo.DefaultProduceTopic(asked.topic),
		kgo.ClientID("hone-load"),
		kgo.RecordDeliveryTimeout(asked.timeout),
		kgo.ProducerBatchCompression(codec),
	}
	if !asked.idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	private, err := privacy(asked.security)
	if err != nil {
		return nil, err
	}
	options = append(options, private...)
	switch asked.acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	default:
		options = append(options, kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	for _, pair := range asked.own {
		option, err := option(pair[0], pair[1])
		if err != nil {
			return nil, err
		}
		options = append(options, option)
		out.line("using %s %s", pair[0], pair[1])
	}
	return options, nil
}

// TLS and the login.
func privacy(asked map[string]string) ([]kgo.Opt, error) {
	var options []kgo.Opt
	if mode, wanted := asked["tls"]; wanted {
		config := &tls.Config{ServerName: asked["tls_server_name"], InsecureSkipVerify: mode == "believe-anyone"}
		if path := asked["tls_ca"]; path != "" {
			pem, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("no certificate in %s", path)
			}
		}
		if path := asked["tls_cert"]; path != "" {
			own, err := tls.LoadX509KeyPair(path, asked["tls_key"])
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{own}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	user, password := asked["sasl_user"], asked["sasl_password"]
	switch mechanism := asked["sasl_mechanism"]; mechanism {
	case "":
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("the mechanism %q is unknown", mechanism)
	}
	return options, nil
}

func option(key, value string) (kgo.Opt, error) {
	if key == "partitioner" {
		partitioner, known := partitioners[value]
		if !known {
			return nil, fmt.Errorf("the partitioner %q is none of sticky-key, round-robin", value)
		}
		return kgo.RecordPartitioner(partitioner), nil
	}
	number, err := strconv.ParseFloat(value, 64)
	if err != nil || number < 0 {
		return nil, fmt.Errorf("%s must be a number, got %q", key, value)
	}
	switch key {
	case "linger_ms":
		return kgo.ProducerLinger(time.Duration(number * float64(time.Millisecond))), nil
	case "batch_max_bytes":
		return kgo.ProducerBatchMaxBytes(int32(number)), nil
	case "max_buffered_records":
		return kgo.MaxBufferedRecords(int(number)), nil
	case "max_in_flight":
		return kgo.MaxProduceRequestsInflightPerBroker(int(number)), nil
	}
	return nil, fmt.Errorf(
		"the setting %q is none of linger_ms, batch_max_bytes, max_buffered_records, max_in_flight, partitioner", key)
}

// Hands over every record of a stretch at its time, and returns when all have been reported.
func stretch(
	in *bufio.Reader, out *report, clients []*kgo.Client, records []material, turns []int, start int64,
) error {
	dues := make(chan int64, 1<<16)
	var problem atomic.Value
	go func() {
		defer close(dues)
		if err := readDues(in, dues); err != nil {
			problem.Store(err)
		}
	}()
	var open sync.WaitGroup
	var blockedUntil int64
	index := 0
	for due := range dues {
		sleepUntil(start + due)
		handed := monotonicNs() - start
		waited := due < blockedUntil
		number := index
		record := records[index%len(records)]
		open.Add(1)
		clients[turns[index%len(turns)]].Produce(context.Background(), &kgo.Record{Key: record.key, Value: record.value},
			func(sent *kgo.Record, err error) {
				tell(out, number, handed, monotonicNs()-start, waited, sent, err)
				open.Done()
			})
		if took := monotonicNs() - start; took-handed > int64(blocked) {
			blockedUntil = took
		}
		index++
	}
	// A linger still waits for records that will not come; nothing is flushed, as in a producer that goes on.
	open.Wait()
	if err, failed := problem.Load().(error); failed {
		return err
	}
	return nil
}

func tell(out *report, number int, handed, ended int64, waited bool, sent *kgo.Record, err error) {
	mark := ""
	if waited {
		mark = " waited"
	}
	if err != nil {
		out.line("fail %d %d %d %s%s", number, handed, ended, name(err), mark)
		return
	}
	out.line("ack %d %d %d %d %d%s", number, handed, ended, sent.Partition, sent.Offset, mark)
}

// One word for an error.
func name(err error) string {
	var known *kerr.Error
	switch {
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &known):
		return known.Message
	}
	return strings.Join(strings.Fields(err.Error()), "_")
}

func readDues(in *bufio.Reader, dues chan<- int64) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the input ended in the midst of a stretch: %w", err)
		}
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "end" {
			return nil
		}
		if len(words) == 0 || words[0] != "due" {
			continue
		}
		for _, word := range words[1:] {
			due, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return fmt.Errorf("a due time that is no number: %q", word)
			}
			dues <- due
		}
	}
}

// Go's timers are late by a tenth of a millisecond and more, so the last of it is slept by the kernel.
func sleepUntil(at int64) {
	for {
		left := at - monotonicNs()
		if left <= 0 {
			return
		}
		if left > int64(2*time.Millisecond) {
			time.Sleep(time.Duration(left) - time.Millisecond)
			continue
		}
		pause := syscall.NsecToTimespec(left)
		syscall.Nanosleep(&pause, nil)
	}
}

func version() string {
	if info, known := debug.ReadBuildInfo(); known {
		for _, module := range info.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				return module.Version
			}
		}
	}
	return "unknown"
}
