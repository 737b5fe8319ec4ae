import type { Command, Option } from 'commander'
import { createVerb } from './branches/create.ts'
import { deleteVerb } from './branches/delete.ts'
import { getVerb } from './branches/get.ts'
import { listVerb } from './branches/list.ts'
import { noun, PROJECT } from './verb.ts'

/** `neap branches …` */
export function branchesCommand(access: readonly Option[]): Command {
  const about = 'Branches: each is a Postgres of its own, made as a copy of its parent.'
  return noun('branches', about, [...access, PROJECT], [listVerb(), getVerb(), createVerb(), deleteVerb()])
}
