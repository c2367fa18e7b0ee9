/* cmd_help.c — quipu help [COMMAND], and the man page and completions for the build. */
#include "help.h"

qp_status cmd_help(session *s, qp_error *err) {
    const options *o = s->o;
    if (o->word && (o->man || o->completion))
        return session_usage(s, err, "COMMAND or --%s, not both", o->man ? "man" : "completion");
    const command_row *c = o->word ? command_find(o->word) : NULL;
    if (o->word && !c)
        return session_usage(s, err, "unknown command '%.80s'; did you mean '%s'?", o->word, command_nearest(o->word));
    if (o->man)
        help_man(stdout);
    else if (o->completion)
        help_completion(stdout, o->completion);
    else if (c)
        help_command(stdout, c, s->term.colour_out);
    else
        help_commands(stdout, s->term.colour_out);
    return QP_OK;
}
