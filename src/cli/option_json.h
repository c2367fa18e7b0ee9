/* option_json.h — one option of an answer as a value of JSON, in and out. */
#ifndef CLI_OPTION_JSON_H
#define CLI_OPTION_JSON_H

#include "command.h"
#include "base/json.h"

/* Sets the option of this name ('_' as good as '-'); `key` is what errors call it. A list replaces the one before, null
 * changes nothing. Texts are borrowed from `value`, which must outlive *o. */
qp_status option_set_json(options *o, const command_row *c, const char *name, const char *key, json_t *value,
                          qp_error *err);
/* The option's value, as option_set_json takes it; NULL when memory is short. */
json_t *option_get_json(const options *o, const option_row *row);

#endif
