import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { without } from '../clients.ts'
import { type Ran, run } from '../neap.ts'
import type { Proxy } from '../../src/proxy/proxy.ts'
import { byOptions } from './fixture.ts'
import type { Kind, On, Scene } from './protocol.ts'
import { PASSWORD } from './servers.ts'

/* psql and pgbench as users run them. */

const ENVIRONMENT = { PATH: process.env['PATH'], PGPASSWORD: PASSWORD, PGCONNECT_TIMEOUT: '60' }

export function programTests(on: On, kind: Kind, version: number): void {
  const connection = ({ proxy, host }: Scene): string => byOptions(proxy.port, host(kind))
  const psql = (scene: Scene, ...args: string[]): Promise<Ran> =>
    run('psql', ['-XAtq', connection(scene), ...args], ENVIRONMENT)

  on(
    'psql: \\copy, \\gdesc, several statements, scripts that stop at an error',
    async (scene) => {
      const dir = await mkdtemp(join(tmpdir(), 'neap-psql-'))
      try {
        const [file, script] = [join(dir, 'rows'), join(dir, 'script.sql')]
        await writeFile(file, 'one\ntwo\n')
        assert.deepEqual(await psql(scene, '-c', 'truncate arrived', '-c', `\\copy arrived from '${file}'`), OK(''))
        assert.deepEqual(await psql(scene, '-c', `\\copy (select line || '!' from arrived) to '${file}'`), OK(''))
        assert.equal(await readFile(file, 'utf8'), 'one!\ntwo!\n')
        assert.deepEqual(await psql(scene, '-c', 'select 1; select 2', '-c', 'select 3'), OK('1\n2\n3\n'))
        await writeFile(script, "select 1 as n, 'x' as t \\gdesc\n")
        assert.deepEqual(await psql(scene, '-f', script), OK('n|integer\nt|text\n'))
        await writeFile(script, 'begin;\ndelete from arrived;\nselect 1/0;\ncommit;\nselect count(*) from arrived;\n')
        const went = await psql(scene, '-f', script)
        assert.equal(went.stdout, '2\n')
        assert.match(went.stderr, /division by zero/)
        const stopped = await psql(scene, '-v', 'ON_ERROR_STOP=1', '-f', script)
        assert.deepEqual([stopped.code, stopped.stdout], [3, ''])
        const single = await psql(scene, '-1', '-v', 'ON_ERROR_STOP=1', '-c', 'delete from arrived', '-c', 'select 1/0')
        assert.equal(single.code, 1)
        assert.deepEqual(await psql(scene, '-c', 'select count(*) from arrived'), OK('2\n'))
        assert.deepEqual((await psql(scene, '-c', '\\d item')).code, 0)
      } finally {
        await rm(dir, { recursive: true })
      }
    },
    without('psql'),
  )

  on(
    'pgbench with each query mode, with few and many clients',
    async (scene) => {
      // While it prepares statements, pgbench waits for one client and serves no other. That blocks if other clients
      // hold all sessions in transactions.
      const roomy = await scene.fixture.proxy({ poolSize: 100 })
      const pgbench = async (proxy: Proxy, ...args: string[]): Promise<void> => {
        const ran = await run('pgbench', [...args, byOptions(proxy.port, scene.host(kind))], ENVIRONMENT)
        assert.equal(ran.code, 0, `${args.join(' ')}: ${ran.stderr}`)
        if (!args.includes('-i')) assert.match(ran.stdout, /number of failed transactions: 0 /)
      }
      await pgbench(scene.proxy, '-i', '-s', '1', '-q')
      for (const mode of ['simple', 'extended', 'prepared'])
        for (const size of [
          ['-c', '8', '-t', '20', '-j', '2'],
          // The result of many clients does not depend on the version.
          ...(version === 18 ? [['-c', '100', '-t', '2', '-j', '2']] : []),
        ]) {
          await pgbench(mode === 'prepared' ? roomy : scene.proxy, '-n', '-M', mode, ...size)
          if (mode === 'prepared') await pgbench(scene.proxy, '-n', '-S', '-M', mode, ...size)
        }
      await roomy.stop()
      assert.deepEqual(
        await psql(
          scene,
          '-c',
          'select sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts',
        ),
        OK('t\n'),
      )
    },
    without('psql', 'pgbench'),
  )
}

const OK = (stdout: string): Ran => ({ code: 0, stdout, stderr: '' })
