import { Link } from 'wouter'
import type { Branch } from '../api.ts'
import { Empty } from './states.tsx'

/** What stands where a branch without a compute cannot show something, such as "its tables", and how to give it one. */
export function NoCompute({ branch, what }: { readonly branch: Branch; readonly what: string }) {
  return (
    <Empty title="No compute">
      <p>The branch needs a compute for {what}, and has none.</p>
      <Link href={`/projects/${branch.project_id}/branches/${branch.id}?do=add-compute`}>Add a compute</Link>
    </Empty>
  )
}
