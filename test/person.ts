import assert from 'node:assert/strict'
import type { Neap } from './neap.ts'

/** A browser of a person without pages: its cookie, and requests with it as the console sends them. */
export interface Visit {
  cookie: string
  /** The organization in the header; empty: the first one. */
  organization: string
  /** The path of the API, or of the origin where it begins with `//`. */
  ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<VisitAnswer>
  /** The same, which must succeed. */
  done(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>
}

export interface VisitAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: Record<string, unknown> & { readonly code?: string; readonly message?: string }
}

export function newVisit(neap: Neap, cookie = ''): Visit {
  const { api_url } = neap.ready
  const visit: Visit = {
    cookie,
    organization: '',
    async ask(method, path, body, headers = {}) {
      const url = path.startsWith('//') ? `${new URL(api_url).origin}${path.slice(1)}` : `${api_url}${path}`
      const response = await fetch(url, {
        method,
        headers: {
          'neap-organization': visit.organization,
          ...(visit.cookie && { cookie: visit.cookie }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        redirect: 'manual',
      })
      const set = response.headers.get('set-cookie')
      if (set !== null && response.status < 400) visit.cookie = /^[^;]*/.exec(set)?.[0] ?? ''
      const text = await response.text()
      const isJson = response.headers.get('content-type')?.startsWith('application/json') ?? false
      return {
        status: response.status,
        headers: response.headers,
        text,
        body: isJson ? (JSON.parse(text) as VisitAnswer['body']) : {},
      }
    },
    async done(method, path, body) {
      const answer = await visit.ask(method, path, body)
      assert.ok(answer.status < 300, `${method} ${path} answered ${answer.status}: ${answer.text}`)
      return answer.body
    },
  }
  return visit
}

/** A visit of the operator, or of the person with this email, signed in by a link. */
export async function visitByLink(neap: Neap, email?: string): Promise<Visit> {
  const { url } = await neap.call('POST /sign_in_links', { query: { email } })
  const visit = newVisit(neap)
  await visit.done('POST', '//session', { link: url.split('=')[1] })
  return visit
}

/** Invites a person to the organization of a visit, and joins as a new one with this name. */
export async function joined(neap: Neap, admin: Visit, role: string, name: string): Promise<Visit> {
  const visit = newVisit(neap)
  const token = await invited(admin, role)
  await visit.done('POST', '//invitation/join', {
    token,
    name,
    email: emailOf(name),
    password: passwordOf(name),
  })
  return visit
}

/** The token of a new invitation to the organization of a visit. */
export async function invited(admin: Visit, role: string): Promise<string> {
  const organization = await organizationOf(admin)
  const { invitations } = await admin.done('POST', `/organizations/${organization}/invitations`, {
    invitations: [{ role }],
  })
  const [made] = invitations as { url: string }[]
  return made?.url.split('#')[1] ?? ''
}

/** The organization that a visit is in. */
export async function organizationOf(visit: Visit): Promise<string> {
  if (visit.organization !== '') return visit.organization
  const { organizations } = await visit.done('GET', '/users/me/organizations')
  return (organizations as { id: string }[])[0]?.id ?? ''
}

export const emailOf = (name: string): string => `${name.toLowerCase().replaceAll(' ', '.')}@example.com`
export const passwordOf = (name: string): string => `the long password of ${name}`
