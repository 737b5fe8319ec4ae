/*
 * One client's connection, stage after stage:
 *
 *   startup packet ─▶ route ─▶ log in ─▶ reach (look up, wait, wake, connect) ─▶ splice
 *                                        └───▶ share the sessions of a pool
 *
 * Nothing is woken for a client before it has shown that it knows the password, but where only the compute knows what that is.
 */
import type { Duplex } from 'node:stream'
import type { Client } from './client.ts'
import { closeGently, refuse } from './close.ts'
import type { ConnectionContext } from './context.ts'
import { joinCompute } from './direct.ts'
import { logIn } from './entry.ts'
import { ClientGone } from './errors.ts'
import { encodeNegotiation } from './messages.ts'
import { readFirstPacket } from './opening.ts'
import { joinPool } from './pool/join.ts'
import { asProxyError } from './report.ts'
import { route } from './route.ts'
import { CANCEL_REQUEST, isProtocolOption, packetCode, parseStartup, PROTOCOL_3_2, type Startup } from './startup.ts'

/** Serves a client from its startup packet on. Never rejects: what goes wrong is told to the client or logged. */
export async function serve(context: ConnectionContext, client: Client): Promise<void> {
  const { stream } = client
  try {
    const packet = await readFirstPacket(stream)
    if (packetCode(packet) === CANCEL_REQUEST) return context.cancelKeys.pass(client, packet)
    const startup = negotiate(stream, parseStartup(packet))
    const routed = route(startup, client.serverName, context.domain)
    const loggedIn = await logIn(context, client, routed)
    const join = routed.pooled || loggedIn.target.pooler_enabled ? joinPool : joinCompute
    await join(context, stream, routed.startup, loggedIn)
  } catch (error) {
    if (error instanceof ClientGone) closeGently(stream)
    else refuse(stream, asProxyError(error, context))
  }
}

/**
 * Tells a client that would speak a newer protocol, or with options, what is spoken here (Postgres manual, "Start-up"). Answers its startup
 * in the version that is spoken from now on.
 */
function negotiate(client: Duplex, { version, parameters }: Startup): Startup {
  const options = [...parameters.keys()].filter(isProtocolOption)
  const spoken = Math.min(version, PROTOCOL_3_2)
  if (spoken !== version || options.length > 0) client.write(encodeNegotiation(spoken, options))
  return { version: spoken, parameters }
}
