package httpapi

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// messages are the bodies of answers; what they are made of follows by itself.
var messages = []any{
	api.AdminActionPage{},
	api.AdminSaleList{},
	sluice.AuditReport{},
	api.BuyerList{},
	api.BuyerPage{},
	api.Challenge{},
	api.Curve{},
	api.DeadLetterList{},
	api.DeliveryPage{},
	sluice.Erased{},
	api.Buyer{},
	api.EventPage{},
	api.LogLevel{},
	api.OrderHistory{},
	api.OrderPage{},
	api.Placed{},
	api.Problem{},
	api.Ready{},
	api.ReconcileReport{},
	sluice.Recovery{},
	api.Replayed{},
	api.Status{},
	api.SaleCheck{},
	api.SaleDeleted{},
	api.SaleList{},
	api.ServerTime{},
	api.Ticket{},
	api.WebhookDeleted{},
	api.WebhookList{},
	api.WebhookReplayed{},
	api.WebhookTested{},
}

// requests are the bodies of requests, and which of their fields are required
// where the type does not say it: nil where it does.
var requests = map[reflect.Type][]string{
	reflect.TypeFor[api.AskTicket]():     nil,
	reflect.TypeFor[api.CreateSale]():    {"sku", "title", "price", "total", "max_per_buyer", "opens_at"},
	reflect.TypeFor[api.CreateWebhook](): {"url"},
	reflect.TypeFor[api.EraseBuyer]():    nil,
	reflect.TypeFor[api.PatchSale]():     {},
	reflect.TypeFor[api.PayOrder]():      nil,
	reflect.TypeFor[api.PlaceOrder]():    nil,
	reflect.TypeFor[api.Reconcile]():     {},
	reflect.TypeFor[api.Recover]():       {},
	reflect.TypeFor[api.RejectOrder]():   nil,
	reflect.TypeFor[api.SetLogLevel]():   nil,
	reflect.TypeFor[api.ExtendOrder]():   nil,
	reflect.TypeFor[api.ReplayWebhook](): {},
	reflect.TypeFor[api.Restock]():       nil,
}

// allSchemas are the components of the document.
func allSchemas() object {
	s := &schemas{components: object{}}
	for _, m := range messages {
		s.of(reflect.TypeOf(m))
	}
	for t, required := range requests {
		s.request(t, required)
	}
	return s.components
}

// object is a JSON object of the OpenAPI document.
type object = map[string]any

// schemas makes JSON Schemas of Go types, from their json tags. Structs become
// components, named like the type.
type schemas struct {
	components object
	reading    bool // of what is read: strictly, and with what may be left out
}

// filledIn are the fields that a request may leave out of a type, though they are
// always there in answers.
var filledIn = map[reflect.Type][]string{
	reflect.TypeFor[sluice.BuyerRate]():   {"shared"},
	reflect.TypeFor[sluice.AddressRate](): {"shared"},
	reflect.TypeFor[sluice.Risk]():        {"timeout_ms", "on_failure"},
}

// plain are the types of the domain whose components have their names.
var plain = []reflect.Type{
	reflect.TypeFor[sluice.AuditReport](), reflect.TypeFor[sluice.Difference](), reflect.TypeFor[sluice.Erased](),
	reflect.TypeFor[sluice.ErasureWait](), reflect.TypeFor[sluice.Money](), reflect.TypeFor[sluice.Recovery](),
	reflect.TypeFor[sluice.Texts](),
}

// leaves are the schemas of types that are not what they are made of.
var leaves = map[reflect.Type]object{
	reflect.TypeFor[api.Time](): {
		"type": "string", "format": "date-time",
		"examples": []string{"2026-11-11T12:00:00.000Z"},
	},
	reflect.TypeFor[sluice.AuditFigures](): {"type": []string{"object", "null"}, "description": "any object"},
	reflect.TypeFor[json.RawMessage]():     {"type": []string{"object", "null"}, "description": "any object"},
	reflect.TypeFor[sluice.SaleID](): {
		"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,47}$",
		"examples": []string{"phone-2026"},
	},
	reflect.TypeFor[sluice.OrderID](): {
		"type": "string", "description": "carries the id of its sale",
		"examples": []string{"phone-2026.019a7d3e5f6b7c8d9e0f1a2b3c4d5e6f"},
	},
	reflect.TypeFor[sluice.BuyerID](): {"type": "string", "description": "1 to 128 bytes of UTF-8"},
	reflect.TypeFor[sluice.Pictures](): {
		"type": "array", "maxItems": sluice.MaxPictures, "items": object{"type": "string"}, "description": "the id of " +
			"a picture that was uploaded (at /s/{sale}/pictures/{id}-640.jpg and -1280.jpg), or its https address",
	},
	reflect.TypeFor[sluice.Key](): {"type": "string", "pattern": "^[A-Za-z0-9_-]{8,64}$"},
	reflect.TypeFor[sluice.Visibility](): {
		"type": "string", "enum": []sluice.Visibility{api.Listed, sluice.Unlisted, sluice.Hidden},
		"description": "who finds the sale: every buyer; by its id alone; no buyer, for whom it does not exist",
	},
	reflect.TypeFor[sluice.Availability](): {
		"type": "string", "enum": []sluice.Availability{api.Exact, sluice.Some, sluice.None},
		"description": "what buyers read of the units: all; whether there are any; nothing",
	},
	reflect.TypeFor[sluice.State](): {"type": "string", "enum": []sluice.State{
		sluice.StateUpcoming, sluice.StateOpen, sluice.StatePaused, sluice.StateSoldOut, sluice.StateClosed,
		sluice.StateUnavailable,
	}},
	reflect.TypeFor[sluice.Status](): {"type": "string", "enum": []sluice.Status{
		sluice.Queued, sluice.Pending, sluice.Paid, sluice.Rejected, sluice.Cancelled, sluice.Expired, sluice.Refunded,
		sluice.RefundDue,
	}},
}

// of returns the schema of a type: a reference where it is a component.
func (s *schemas) of(t reflect.Type) object {
	if leaf, ok := leaves[t]; ok {
		return maps.Clone(leaf)
	}
	if value, nullable, ok := optional(t); ok {
		if nullable {
			return orNull(s.of(value))
		}
		return s.of(value)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		name := t.Name()
		if pkg := t.PkgPath(); strings.HasSuffix(pkg, "/sluice") && !slices.Contains(plain, t) {
			name = "Rule" + name // the domain's own, as it stands in a sale's rules
		}
		if s.reading {
			name += "Input" // what it is part of is strict
		}
		if _, made := s.components[name]; !made {
			s.components[name] = nil // a type that holds itself ends here
			s.components[name] = s.structure(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	panic("httpapi: no schema for " + t.String())
}

// structure is the schema of a struct. What is always written is required.
func (s *schemas) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		schema := s.of(f.Type)
		absent := strings.Contains(rest, "omitempty") || strings.Contains(rest, "omitzero") || s.reading &&
			slices.Contains(filledIn[t], name)
		if !absent {
			required = append(required, name)
			if f.Type.Kind() == reflect.Pointer {
				schema = orNull(schema)
			}
		}
		properties[name] = schema
	}
	made := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		made["required"] = required
	}
	if s.reading {
		made["additionalProperties"] = false
	}
	return made
}

// orNull also allows null.
func orNull(schema object) object {
	if kind, ok := schema["type"].(string); ok && schema["enum"] == nil {
		schema["type"] = []string{kind, "null"}
		return schema
	}
	return object{"anyOf": []object{schema, {"type": "null"}}}
}

// optional takes api.Opt and api.Nullable off a type.
func optional(t reflect.Type) (value reflect.Type, nullable, ok bool) {
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[api.Time]().PkgPath() {
		return nil, false, false
	}
	opt, null := strings.HasPrefix(t.Name(), "Opt["), strings.HasPrefix(t.Name(), "Nullable[")
	if !opt && !null {
		return nil, false, false
	}
	field, _ := t.FieldByName("Value")
	return field.Type, null, true
}

// request is the schema of a message that is read strictly: unknown fields are
// errors, in what it is made of, too.
func (s *schemas) request(t reflect.Type, required []string) {
	s.reading = true
	defer func() { s.reading = false }()
	schema := s.structure(t)
	if required != nil {
		schema["required"] = required
	}
	s.components[t.Name()] = schema
}
