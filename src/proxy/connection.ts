/*
 * One client's connection, stage after stage:
 *
 *   startup packet ─▶ route ─▶ log in ─▶ reach (look up, wait, wake, connect) ─▶ splice
 *                                        └───▶ share the sessions of a pool
 *
 * No compute is woken before the client has proved its password, except where only the compute has the verifier.
 */
import type { Duplex } from 'node:stream'
import type { Client } from './accept/client.ts'
import { readFirstPacket } from './accept/first_packets.ts'
import { logIn } from './auth/client_login.ts'
import { route } from './connect/route.ts'
import type { ConnectionContext } from './context.ts'
import { joinPool } from './pool/join.ts'
import { joinCompute } from './session/direct_session.ts'
import { closeGently, refuse } from './wire/close.ts'
import { ClientGone } from './wire/errors.ts'
import { encodeNegotiation } from './wire/messages.ts'
import { asProxyError } from './wire/report.ts'
import {
  CANCEL_REQUEST,
  isProtocolOption,
  packetCode,
  parseStartup,
  PROTOCOL_3_2,
  type Startup,
} from './wire/startup.ts'

/** Serves a client from its startup packet on. Never rejects: errors are sent to the client or logged. */
export async function serve(context: ConnectionContext, client: Client): Promise<void> {
  const { stream } = client
  try {
    const packet = await readFirstPacket(stream)
    if (packetCode(packet) === CANCEL_REQUEST) return context.cancelKeys.pass(client, packet)
    const startup = negotiate(stream, parseStartup(packet))
    const routed = route(startup, client.serverName, context.domain)
    const loggedIn = await logIn(context, client, routed)
    const isPooled = routed.pooled || (loggedIn.target.pooler_enabled && !loggedIn.isAlone)
    const join = isPooled ? joinPool : joinCompute
    await join(context, stream, routed.startup, loggedIn)
  } catch (error) {
    if (error instanceof ClientGone) closeGently(stream)
    else refuse(stream, asProxyError(error, context))
  }
}

/**
 * Negotiates a newer protocol version or protocol options down (Postgres manual, "Start-up"). Returns the startup with
 * the version in use.
 */
function negotiate(client: Duplex, { version, parameters }: Startup): Startup {
  const options = [...parameters.keys()].filter(isProtocolOption)
  const spoken = Math.min(version, PROTOCOL_3_2)
  if (spoken !== version || options.length > 0) client.write(encodeNegotiation(spoken, options))
  return { version: spoken, parameters }
}
