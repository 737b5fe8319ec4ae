import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace } from '../project.ts'
import { peer, withoutPeers } from './peers.ts'

/* The MCP server, unmodified, over stdio, as an agent's host starts it. */

const SERVER = 'npm/node_modules/@neondatabase/mcp-server-neon/dist/index.js'

interface Answer {
  readonly id?: number
  readonly result?: {
    readonly tools?: { name: string }[]
    readonly content?: { text: string }[]
    readonly isError?: boolean
  }
  readonly error?: { readonly message: string }
}

let neap: Neap

before(async () => {
  neap = await startNeap()
})

after(() => neap?.stop())

test(
  'projects are listed and described, and a branch is created and deleted',
  { skip: withoutPeers(SERVER) },
  async () => {
    const place = await firstPlace(neap)
    const { api_url, api_key } = neap.ready
    const env = { PATH: process.env['PATH'], NEON_API_HOST: api_url, NODE_ENV: 'production' }
    const child = spawn(process.execPath, [peer(SERVER), 'start', api_key ?? '', 'no-analytics'], { env })
    const ended = once(child, 'close')
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    let last = 0
    async function ask(method: string, params: object): Promise<NonNullable<Answer['result']>> {
      const id = ++last
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
      for (;;) {
        const { value, done } = await lines.next()
        if (done) throw new Error(`the server ended: ${stderr}`)
        const answer = JSON.parse(value) as Answer
        if (answer.id === id) return answer.result ?? assert.fail(`${method}: ${answer.error?.message}`)
      }
    }
    async function tool(name: string, params: object): Promise<string> {
      const { content = [], isError } = await ask('tools/call', { name, arguments: { params } })
      const text = content.map((part) => part.text).join('\n')
      assert.ok(!isError, `${name}: ${text}`)
      return text
    }
    try {
      await ask('initialize', {
        protocolVersion: '2024-11-05',
        capabilities: {},
        clientInfo: { name: 'neap', version: '1' },
      })
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`)
      const { tools = [] } = await ask('tools/list', {})
      assert.ok(tools.some(({ name }) => name === 'run_sql'))
      const projectId = place.project_id
      assert.match(await tool('list_projects', {}), new RegExp(projectId))
      assert.match(await tool('describe_project', { projectId }), new RegExp(place.branch_id))
      const made = await tool('create_branch', { projectId, branchName: 'agent' })
      const branchId = /br-[a-z]+-[a-z]+-[a-z0-9]+/.exec(made)?.[0] ?? assert.fail(made)
      await tool('delete_branch', { projectId, branchId })
    } finally {
      child.kill()
      await ended
    }
  },
)
