import type { Command, Option } from 'commander'
import { atVerb } from './branches/at.ts'
import { createVerb } from './branches/create.ts'
import { deleteVerb } from './branches/delete.ts'
import { getVerb } from './branches/get.ts'
import { listVerb } from './branches/list.ts'
import { recoverVerb } from './branches/recover.ts'
import { renameVerb } from './branches/rename.ts'
import { resetVerb } from './branches/reset.ts'
import { restoreVerb } from './branches/restore.ts'
import { schemaVerb } from './branches/schema.ts'
import { setDefaultVerb } from './branches/set_default.ts'
import { diskUsageVerb } from './branches/disk_usage.ts'
import { updateVerb } from './branches/update.ts'
import { noun, PROJECT } from './verb.ts'

/** `neap branches …` */
export function branchesCommand(access: readonly Option[]): Command {
  const about = 'Branches: each is a Postgres of its own, made as a copy of its parent.'
  const verbs = [
    listVerb(),
    getVerb(),
    createVerb(),
    renameVerb(),
    updateVerb(),
    setDefaultVerb(),
    resetVerb(),
    restoreVerb(),
    atVerb(),
    schemaVerb(),
    diskUsageVerb(),
    deleteVerb(),
    recoverVerb(),
  ]
  return noun('branches', about, [...access, PROJECT], verbs)
}
