import { useQuery } from '@tanstack/react-query'
import { useEffect, useId, useRef, useState } from 'react'
import { call } from '../api.ts'
import { useDebounced } from './debounced.ts'
import { Field } from './field.tsx'

const MAX_SUGGESTED = 20

interface BranchPickerProps {
  readonly projectId: string
  readonly label: string
  readonly hint?: string
  /** The name of the form's field, which holds the branch's id. */
  readonly name: string
  /** The branch that is chosen first, by its name. */
  readonly initially?: string | undefined
  readonly isRequired?: boolean
  readonly onChoose?: (id: string | undefined) => void
}

/** A field for one branch of a project, found by its name among however many there are. */
export function BranchPicker({
  projectId,
  label,
  hint,
  name,
  initially = '',
  isRequired,
  onChoose,
}: BranchPickerProps) {
  const [text, setText] = useState(initially)
  const list = useId()
  const field = useRef<HTMLInputElement>(null)
  const search = useDebounced(text)
  const found = useQuery({
    queryKey: ['project', projectId, 'picked branches', search],
    placeholderData: (before) => before,
    queryFn: async () => {
      const query = { sort_by: 'updated_at', limit: MAX_SUGGESTED, ...(search !== '' && { search }) } as const
      return (await call('GET /projects/:project_id/branches', { params: { project_id: projectId }, query })).branches
    },
  })
  const id = found.data?.find((branch) => branch.name === text || branch.id === text)?.id
  useEffect(() => {
    // The form reads its fields when one of them changes.
    field.current?.dispatchEvent(new Event('input', { bubbles: true }))
    onChoose?.(id)
  }, [id])
  const isUnknown = text !== '' && search === text && !found.isFetching && id === undefined
  return (
    <>
      <Field label={label} hint={isUnknown ? 'No branch has this name.' : (hint ?? 'Type a part of its name.')}>
        <input
          list={list}
          value={text}
          required={isRequired}
          autoComplete="off"
          aria-invalid={isUnknown}
          onChange={({ target }) => setText(target.value)}
        />
      </Field>
      <datalist id={list}>
        {found.data?.map((branch) => (
          <option key={branch.id} value={branch.name} />
        ))}
      </datalist>
      <input type="hidden" name={name} ref={field} value={id ?? ''} />
    </>
  )
}
