/* settings.h — from options to what a job is told: the same for one prompt, a line of a batch, a turn of a chat. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include "command.h"

/* What no library call checks: texts and lists that are malformed by themselves. */
qp_status settings_check(const options *o, qp_error *err);
/* The seed that was given, else one out of the clock. */
uint64_t settings_seed(const session *s);
/* Everything of *out but prompt and ids; borrows from *o. `seed` is used as it is. */
void settings_fill(qp_job_options *out, const options *o, const command_row *command, const qp_model_info *info,
                   uint64_t seed);
/* Tokens of cache for `jobs` answers at once, as far as half of the memory reaches; each needs `need` tokens (0: not
 * known, the trained context). */
uint64_t settings_cache_tokens(const options *o, const qp_model *model, uint64_t need, uint64_t jobs);

#endif
