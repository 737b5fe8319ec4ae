import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { envOf, type Neap, NEAP, startNeap } from '../neap.ts'
import { firstPlace } from '../project.ts'

/* Every local user can read the arguments of a process while it runs. */

let neap: Neap

before(async () => {
  neap = await startNeap()
})

after(() => neap?.stop())

test(
  'the command line of neap psql shows no password to other users',
  { skip: process.platform !== 'linux' },
  async () => {
    const { uri, branch_id } = await firstPlace(neap)
    const { data_dir, project_id } = neap.ready
    const { branch } = await neap.call('GET /projects/:project_id/branches/:branch_id', {
      params: { project_id: project_id ?? '', branch_id },
    })
    const prompt = spawn(NEAP, ['psql', branch.name], { env: envOf(data_dir), stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = once(prompt, 'exit')
    try {
      prompt.stdin.write('select 1 + 41 as answer;\n')
      const [answer] = (await once(prompt.stdout, 'data')) as [Buffer]
      assert.match(String(answer), /42/)
      const seen = readFileSync(`/proc/${prompt.pid}/cmdline`, 'utf8')
      assert.ok(!seen.includes(decodeURIComponent(new URL(uri).password)))
    } finally {
      prompt.stdin.end()
      await ended
    }
  },
)
