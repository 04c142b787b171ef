package main

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
)

func partitionCount(admin *kadm.Client, topic string) int {
	found, err := admin.ListTopics(within(), topic)
	must(err)
	return len(found[topic].Partitions)
}

func retention(admin *kadm.Client, topic string) string {
	found, err := admin.DescribeTopicConfigs(within(), topic)
	must(err)
	configs, err := found.On(topic, nil)
	must(err)
	must(configs.Err)
	for _, config := range configs.Configs {
		if config.Key == "retention.ms" {
			return config.MaybeValue()
		}
	}
	panic("no retention.ms among the configs")
}

func adminTopic(p parameters) {
	admin, topic, more := admin(), p["topic"], p.number("more")
	defer admin.Close()
	attempt("create-topic", func() fields {
		retention := p["retention_ms"]
		made, err := admin.CreateTopic(within(), int32(p.number("partitions")), 1,
			map[string]*string{"retention.ms": &retention}, topic)
		must(err)
		must(made.Err)
		return nil
	})
	attempt("describe-topic", func() fields {
		waitFor(func() string { return "the new topic" }, func() bool { return partitionCount(admin, topic) > 0 })
		return fields{"partitions": partitionCount(admin, topic)}
	})
	attempt("describe-configs", func() fields { return fields{"retention_ms": retention(admin, topic)} })
	attempt("alter-configs", func() fields {
		altered := p["altered_ms"]
		answers, err := admin.AlterTopicConfigs(within(), []kadm.AlterConfig{{Name: "retention.ms", Value: &altered}}, topic)
		must(err)
		for _, answer := range answers {
			must(answer.Err)
		}
		waitFor(func() string { return "the new value" }, func() bool { return retention(admin, topic) == altered })
		return fields{"altered": retention(admin, topic)}
	})
	attempt("create-partitions", func() fields {
		answers, err := admin.UpdatePartitions(within(), more, topic)
		must(err)
		must(answers.Error())
		waitFor(func() string { return "the new partitions" }, func() bool { return partitionCount(admin, topic) == more })
		return fields{"partitions": partitionCount(admin, topic)}
	})
}

func offset(listed kadm.ListedOffsets, err error) int64 {
	must(err)
	must(listed.Error())
	for _, partitions := range listed {
		return partitions[0].Offset
	}
	panic("no offset was listed")
}

func adminLog(p parameters) {
	admin, topic := admin(), p["topic"]
	defer admin.Close()
	attempt("list-offsets", func() fields {
		return fields{
			"earliest": offset(admin.ListStartOffsets(within(), topic)),
			"latest":   offset(admin.ListEndOffsets(within(), topic)),
			"at":       offset(admin.ListOffsetsAfterMilli(within(), int64(p.number("at")), topic)),
		}
	})
	attempt("delete-records", func() fields {
		before := kadm.Offsets{}
		before.AddOffset(topic, 0, int64(p.number("before")), -1)
		answers, err := admin.DeleteRecords(within(), before)
		must(err)
		must(answers.Error())
		deleted, _ := answers.Lookup(topic, 0)
		return fields{
			"low_watermark": deleted.LowWatermark,
			"earliest":      offset(admin.ListStartOffsets(within(), topic)),
		}
	})
}

func adminGroups(p parameters) {
	admin, group := admin(), p["group"]
	defer admin.Close()
	listed := func() bool {
		found, err := admin.ListGroups(within())
		must(err)
		return slices.Contains(found.Groups(), group)
	}
	attempt("list-groups", func() fields { return fields{"listed": listed()} })
	attempt("describe-groups", func() fields {
		found, err := admin.DescribeGroups(within(), group)
		must(err)
		must(found.Error())
		return fields{"state": found[group].State}
	})
	attempt("group-offsets", func() fields {
		found, err := admin.FetchOffsets(within(), group)
		must(err)
		must(found.Error())
		committed, _ := found.Lookup(p["topic"], 0)
		return fields{"committed": committed.At}
	})
	attempt("delete-groups", func() fields {
		answer, err := admin.DeleteGroup(within(), group)
		must(err)
		must(answer.Err)
		return fields{"listed": listed()}
	})
}

func adminDelete(p parameters) {
	admin, topic := admin(), p["topic"]
	defer admin.Close()
	attempt("describe-cluster", func() fields {
		brokers, err := admin.ListBrokers(within())
		must(err)
		return fields{"brokers": len(brokers)}
	})
	attempt("delete-topic", func() fields {
		answer, err := admin.DeleteTopic(within(), topic)
		must(err)
		must(answer.Err)
		listed := func() bool {
			found, err := admin.ListTopics(within())
			must(err)
			return found.Has(topic)
		}
		waitFor(func() string { return "the topic's end" }, func() bool { return !listed() })
		return fields{"listed": listed()}
	})
}
