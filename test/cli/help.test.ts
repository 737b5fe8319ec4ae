import { test } from 'node:test'
import { transcript } from './golden.ts'

test('--help matches its golden file for the program, each noun and the larger verbs', async () => {
  const { neap, compare } = transcript('help')
  await neap('--help')
  for (const words of [
    'projects',
    'projects create',
    'branches',
    'branches create',
    'endpoints',
    'endpoints update',
    'databases',
    'roles',
    'operations',
    'operations list',
    'keys',
    'keys create',
    'webhooks',
    'webhooks update',
    'connection-string',
  ])
    await neap(`${words} --help`)
  compare()
})

test('wrong usage is answered with the right form', async () => {
  const { neap, compare } = transcript('usage')
  for (const words of [
    'branchs',
    'branches lits',
    'branches get one two',
    'branches delete',
    'branches create --cu much',
    'branches create --suspend-timeout soon',
    'branches create --timeout 0',
    'endpoints update --pg-setting work_mem',
    'endpoints update --enable --disable',
    'operations list --limit 0',
    'operations list --limit 5 --all',
    'operations list --status done',
    'keys create --scope all',
    'keys create --expires later',
    'keys revoke first',
    'projects list --data-dir',
  ])
    await neap(words)
  compare()
})
