/*
 * How a client proves who it is, before anything is woken for it:
 *
 *   AuthenticationSASL ─▶ SASLInitialResponse ─▶ …Continue ─▶ SASLResponse ─▶ …Final, AuthenticationOk
 *
 * Who names a role or an endpoint that there is not is led through the same to the same end. A client that can say by neither host name
 * nor options which endpoint it means sends `endpoint=<id>;<password>` in the place of its password, in clear text within TLS.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { Duplex } from 'node:stream'
import type { Admission } from './admission.ts'
import type { Client } from './client.ts'
import { ProxyError } from './errors.ts'
import { PASSWORD_MESSAGE } from './message_types.ts'
import { encodeAuthentication } from './messages.ts'
import { readMessage } from './packet.ts'
import { SCRAM, SCRAM_PLUS, type ScramKeys, scramServer, type Verifier } from './scram.ts'

/** A program answers at once. Who is asked for a password by one connects anew with it. */
const ANSWER_MS = 15_000

/** Of SCRAM, for a password that the proxy has to derive the keys of: some 50 ms. Towards SCRAM clients, which derive them, there is no cap. */
export const MAX_ITERATIONS = 100_000

/** Checks a proof when it is its turn (see attempts.ts). */
export type CheckInTurn = <T>(check: () => T | Promise<T>, isRight: (answer: T) => boolean) => Promise<T>

/** SaltedPassword (RFC 5802) of a password, when it is its turn (see derivations.ts). */
export type Derive = (password: string, salt: Buffer, iterations: number) => Promise<Buffer>

const [OK, CLEARTEXT, SASL, SASL_CONTINUE, SASL_FINAL] = [0, 3, 10, 11, 12] as const

/**
 * Has the client prove that it knows the password of a verifier, and answers the keys of that conversation.
 * @param found what is being looked for while the client makes its first message: a verifier that no password fits for a role that there is
 * not, or that has none
 * Errors: wrong_password, malformed, too_slow, ClientGone, and what looking for the verifier brings.
 */
export async function authenticate(
  { stream: client, binding }: Client,
  user: string,
  found: Promise<Verifier>,
  inTurn: CheckInTurn,
): Promise<ScramKeys> {
  const mechanisms = [...(binding ? [SCRAM_PLUS] : []), SCRAM]
  client.write(encodeAuthentication(SASL, `${mechanisms.map((name) => `${name}\0`).join('')}\0`))
  const [verifier, response] = await Promise.all([found, answer(client)])
  const { mechanism, first } = initialResponse(response)
  if (!mechanisms.includes(mechanism))
    throw new ProxyError('malformed', { text: 'client selected an invalid SASL authentication mechanism' })
  const server = scramServer(verifier, binding)
  const challenge = server.challenge(mechanism, first)
  if (challenge === undefined) throw malformedScram()
  client.write(encodeAuthentication(SASL_CONTINUE, challenge))
  const proof = (await answer(client)).toString()
  const verified = await inTurn(
    () => server.verify(proof),
    (verdict) => verdict !== 'wrong',
  )
  if (verified === undefined) throw malformedScram()
  if (verified === 'wrong') throw wrongPassword(user)
  client.write(Buffer.concat([encodeAuthentication(SASL_FINAL, verified.serverFinal), encodeAuthentication(OK)]))
  return verified.keys
}

/** Asks for the password in clear text. Errors: malformed, too_slow, ClientGone. */
export async function askForPassword(client: Duplex): Promise<string> {
  client.write(encodeAuthentication(CLEARTEXT))
  return (await answer(client)).toString().replace(/\0$/, '')
}

/** What a password says that names the endpoint as well. Errors: no_endpoint. */
export function splitPassword(given: string): { endpointId: string; password: string } {
  const [, endpointId, password] = /^(?:endpoint|project)=([A-Za-z0-9-]+)[;$](.*)$/s.exec(given) ?? []
  if (endpointId === undefined || password === undefined) throw new ProxyError('no_endpoint')
  return { endpointId, password }
}

/**
 * As `authenticate`, for a password that was sent in clear text. A verifier of too many iterations fits no password here, which looks like any
 * wrong password: it does not say whether there is such a role. Errors: wrong_password, and those of taking turns.
 * @param mock makes a verifier that no password fits
 */
export async function checkPassword(
  client: Duplex,
  user: string,
  password: string,
  { verifier, mock }: Pick<Admission, 'verifier' | 'mock'>,
  inTurn: CheckInTurn,
  derive: Derive,
): Promise<ScramKeys> {
  const { salt, iterations, storedKey, serverKey } = verifier.iterations > MAX_ITERATIONS ? mock() : verifier
  const clientKey = await inTurn(
    async () => {
      // SASLprep (RFC 4013) comes down to this for what people type; Postgres too takes what it cannot prepare as it is.
      const salted = await derive(password.normalize('NFKC'), salt, iterations)
      const key = createHmac('sha256', salted).update('Client Key').digest()
      return timingSafeEqual(createHash('sha256').update(key).digest(), storedKey) ? key : undefined
    },
    (key) => key !== undefined,
  )
  if (!clientKey) throw wrongPassword(user, CLEAR_TEXT_HINT)
  client.write(encodeAuthentication(OK))
  return { clientKey, serverKey }
}

/** Every wrong password in clear text has it, so that it does not tell whether the role exists. */
const CLEAR_TEXT_HINT = `A password that is not sent by SCRAM is checked against a verifier of at most ${MAX_ITERATIONS} SCRAM iterations.`

const wrongPassword = (user: string, hint?: string): ProxyError =>
  new ProxyError('wrong_password', { text: `password authentication failed for user "${user}"`, hint })

const malformedScram = (): ProxyError => new ProxyError('malformed', { text: 'malformed SCRAM message' })

async function answer(client: Duplex): Promise<Buffer> {
  const { type, body } = await readMessage(client, ANSWER_MS)
  if (type !== PASSWORD_MESSAGE) throw new ProxyError('malformed', { text: 'expected a password response' })
  return body
}

/** Errors: malformed. */
function initialResponse(body: Buffer): { mechanism: string; first: string } {
  const end = body.indexOf(0)
  const length = end >= 0 && body.length >= end + 5 ? body.readInt32BE(end + 1) : -1
  if (length < 0 || body.length !== end + 5 + length) throw malformedScram()
  return { mechanism: body.toString('latin1', 0, end), first: body.toString('utf8', end + 5) }
}
