/* proto.h — reading protobuf wire format, one field at a time. */
#ifndef TEXT_PROTO_H
#define TEXT_PROTO_H

#include "base/str.h"

typedef struct proto {
    const uint8_t *at, *end;
    bool is_bad; /* the bytes are not a message */
} proto;

typedef struct proto_field {
    uint32_t number, wire; /* wire: 0 varint, 1 eight bytes, 2 a span, 5 four bytes */
    uint64_t value;        /* wires 0, 1 and 5 */
    span bytes;            /* wire 2 */
} proto_field;

proto proto_of(span message);
/* The next field; false at the end or where the bytes are bad. */
bool proto_next(proto *p, proto_field *field);
float proto_float(const proto_field *field);

#endif
