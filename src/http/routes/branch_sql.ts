import { Type } from 'typebox'
import { sqlAccess } from '../../commands/sql_access.ts'
import { credentialName, JsonLines, route } from '../route.ts'
import { sessionsAtOnce, takePlace } from '../sql/places.ts'
import { run } from '../sql/run.ts'
import { openSession } from '../sql/session.ts'
import { BranchParams } from '../path_params.ts'

const KIB = 1024
const MIB = 1024 * KIB
const MAX_SQL = 128 * KIB
/** Time beyond the limit of a query in which its client takes what is left of the answer. */
const GRACE_SECONDS = 30

export const runSql = route('POST /projects/:project_id/branches/:branch_id/sql', {
  summary: 'Run SQL as a role, as a client of the role would; wakes the compute if it sleeps',
  description: `Logs in through the proxy as \`role_name\`, with the password that Neap gave it, and sends the
text as one simple query: several statements are one transaction unless they say otherwise. The answer is a JSON
object a line, in the order of the statements: \`begin\`, \`columns\`, \`rows\` (values as Postgres' texts),
\`complete\` (the command tag), \`notice\`, \`error\` (with \`position\` in characters of the text) and, last,
\`end\`; an answer without \`end\` or \`error\` was cut off. Rows over \`max_rows\` or \`max_bytes\`, and ones
over 4 MiB, are left out and counted. A client that leaves cancels the query, and so does \`timeout_seconds\`,
whatever \`statement_timeout\` is; an answer that is not read is cut off half a minute later.
\`read_only\` protects against mistakes: the text itself can end it. Keys
with the scope read are refused, since a role may write. Four run at once for each project and key. The audit
list has that SQL was run, and neither the text nor the answer.`,
  tag: 'Branch',
  params: BranchParams,
  body: Type.Object({
    database_name: Type.String({ minLength: 1, maxLength: 63 }),
    role_name: Type.String({ minLength: 1, maxLength: 63 }),
    sql: Type.String({ maxLength: MAX_SQL }),
    read_only: Type.Optional(Type.Boolean({ default: false })),
    max_rows: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, default: 10_000 })),
    max_bytes: Type.Optional(Type.Integer({ minimum: 0, maximum: 512 * MIB, default: 64 * MIB })),
    timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 600, default: 60 })),
  }),
  bodyLimit: 256 * KIB,
  returns: JsonLines,
  errors: ['NOT_FOUND', 'NOT_ALLOWED', 'BODY_TOO_LARGE', 'UNAVAILABLE'],
}).handle(async ({ params, body }, context) => {
  const { caller, gone, clientAddress, stillIn, cut } = context
  const { role_name: role, database_name: database, read_only: readOnly = false, timeout_seconds = 60 } = body
  const access = await sqlAccess(context, params, role, clientAddress)
  const leave = takePlace({
    account: caller.account.id,
    project: params.project_id,
    credential: credentialName(caller),
  })
  const socket = await openSession(context.config, { ...access, role, database, readOnly }, gone).catch(
    (error: unknown) => {
      leave()
      throw error
    },
  )
  // What a client does not read stays in this process: the answer has its place until it is sent or cut off.
  const overdue = setTimeout(cut, (timeout_seconds + GRACE_SECONDS) * 1000)
  const end = () => {
    clearTimeout(overdue)
    socket.destroy()
    leave()
  }
  // Also when the answer never begins.
  gone.addEventListener('abort', end, { once: true })
  if (gone.aborted) end()
  return run(socket, {
    sql: body.sql,
    maxRows: body.max_rows ?? 10_000,
    maxBytes: body.max_bytes ?? 64 * MIB,
    timeoutSeconds: timeout_seconds,
    gone,
    stillIn,
    atOnce: sessionsAtOnce,
  })
})
