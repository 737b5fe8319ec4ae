import https from 'node:https'
import http from 'node:http'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { messageOf, UsageError } from '../../errors.ts'
import type { Finding } from './finding.ts'

const PATIENCE_MS = 5_000
/** The Date of an answer has whole seconds. */
const MAX_SKEW_S = 5

/** Checks readiness, version and clock of an API, without a key. */
export async function askApi(url: string, ca: string | undefined): Promise<readonly Finding[]> {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UsageError(`'${url}' is not the address of an API; one looks like https://db.example.com:7070`)
  const { origin } = new URL(url)
  try {
    const ready = await get(`${origin}/readyz`, ca)
    const document = await get(`${origin}/api/v2/openapi.json`, ca)
    const { title, version } = informationIn(document.body)
    const skew = Math.round((Date.parse(ready.date) - Date.now()) / 1_000)
    if (Number.isNaN(skew)) throw new Error('what answers there is no Neap: it tells no date')
    return [
      {
        what: 'API',
        ...(ready.status === 200
          ? { level: 'ok', found: `${origin} is ready` }
          : { level: 'fails', found: `${origin} is not ready: ${ready.body.trim()}` }),
      },
      { what: 'version', level: 'ok', found: `${title}, version ${version}` },
      {
        what: 'clock',
        ...(Math.abs(skew) <= MAX_SKEW_S
          ? { level: 'ok', found: 'within seconds of this one' }
          : {
              level: 'note',
              found: `${Math.abs(skew)} s ${skew > 0 ? 'ahead of' : 'behind'} this one: one of them is wrong`,
            }),
      },
    ]
  } catch (error) {
    return [{ what: 'API', level: 'fails', found: `${origin}: ${messageOf(error)}` }]
  }
}

function informationIn(body: string): { title: string; version: string } {
  try {
    const { title, version } = (JSON.parse(body) as { info: { title: string; version: string } }).info
    if (title && version) return { title, version }
    throw new Error('its document has no title and version')
  } catch (cause) {
    throw new Error('what answers there is no Neap: it has no OpenAPI document', { cause })
  }
}

async function get(url: string, ca: string | undefined): Promise<{ status: number; date: string; body: string }> {
  const request = (url.startsWith('https:') ? https : http).get(url, { ca, signal: AbortSignal.timeout(PATIENCE_MS) })
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let body = ''
  for await (const part of response.setEncoding('utf8')) body += part as string
  return { status: response.statusCode ?? 0, date: response.headers.date ?? '', body }
}
