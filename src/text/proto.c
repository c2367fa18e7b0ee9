/* proto.c — reading protobuf wire format, one field at a time. */
#include "proto.h"

proto proto_of(span message) {
    const uint8_t *at = (const uint8_t *)message.at;
    return (proto){at, at + message.bytes, false};
}

static bool bad(proto *p) {
    p->is_bad = true;
    p->at = p->end;
    return false;
}

static bool read_varint(proto *p, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && p->at < p->end; shift += 7) {
        const uint8_t byte = *p->at++;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return bad(p);
}

static bool read_fixed(proto *p, int n, uint64_t *out) {
    if (p->end - p->at < n) return bad(p);
    *out = 0;
    for (int i = 0; i < n; i++) *out |= (uint64_t)*p->at++ << (8 * i);
    return true;
}

static bool read_span(proto *p, span *out) {
    uint64_t n;
    if (!read_varint(p, &n)) return false;
    if (n > (uint64_t)(p->end - p->at)) return bad(p);
    *out = (span){(const char *)p->at, (size_t)n};
    p->at += n;
    return true;
}

bool proto_next(proto *p, proto_field *f) {
    uint64_t key;
    if (p->at == p->end || !read_varint(p, &key)) return false;
    *f = (proto_field){.number = (uint32_t)(key >> 3), .wire = key & 7};
    switch (f->wire) {
    case 0:
        return read_varint(p, &f->value);
    case 1:
        return read_fixed(p, 8, &f->value);
    case 2:
        return read_span(p, &f->bytes);
    case 5:
        return read_fixed(p, 4, &f->value);
    default:
        return bad(p);
    }
}

float proto_float(const proto_field *field) {
    const uint32_t bits = (uint32_t)field->value;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
