import { Dialog } from '@base-ui/react/dialog'
import { useQuery } from '@tanstack/react-query'
import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react'
import { useLocation } from 'wouter'
import { call } from '../api.ts'
import { useDebounced } from '../parts/debounced.ts'
import { entriesAt, type Entry, type Here, hereOf, matching } from './entries.ts'

const MAX_FOUND = 10
const MAX_SHOWN = 60

/** A field that finds every page, project, branch and action, by the keyboard alone. */
export function Palette({ close }: { readonly close: () => void }) {
  const [path, navigate] = useLocation()
  const here = hereOf(path)
  const [typed, setTyped] = useState('')
  const [chosen, setChosen] = useState(0)
  const found = useFound(here, useDebounced(typed.trim()))
  const entries = [...matching(entriesAt(here), typed), ...found.entries].slice(0, MAX_SHOWN)
  const current = Math.min(chosen, entries.length - 1)
  const go = (entry: Entry | undefined) => {
    if (!entry) return
    close()
    navigate(entry.href)
  }
  const onKey = (event: KeyboardEvent) => {
    const to = { ArrowDown: current + 1, ArrowUp: current - 1, Home: 0, End: entries.length - 1 }[event.key]
    if (event.key === 'Enter') go(entries[current])
    else if (to !== undefined && entries.length > 0) setChosen((to + entries.length) % entries.length)
    else return
    event.preventDefault()
  }
  return (
    <Dialog.Root open onOpenChange={(open) => !open && close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog palette" aria-label="Go to">
          <Options
            entries={entries}
            current={current}
            typed={typed}
            type={(text) => {
              setTyped(text)
              setChosen(0)
            }}
            onKey={onKey}
            go={go}
          />
          <p role="status">
            {found.isSearching ? 'Searching …' : entries.length === 0 && 'Nothing has this in its name.'}
          </p>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

interface OptionsProps {
  readonly entries: readonly Entry[]
  readonly current: number
  readonly typed: string
  readonly type: (text: string) => void
  readonly onKey: (event: KeyboardEvent) => void
  readonly go: (entry: Entry) => void
}

/** The field and what it finds, as a combobox (ARIA Authoring Practices Guide). */
function Options({ entries, current, typed, type, onKey, go }: OptionsProps) {
  const list = useId()
  const shown = useRef<HTMLUListElement>(null)
  useEffect(() => {
    // Recent browsers return a promise here, which is no clean-up.
    shown.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' })
  }, [current])
  return (
    <>
      <input
        // The palette is opened to type into it.
        autoFocus
        role="combobox"
        aria-label="Page, project, branch or action"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={current < 0 ? undefined : `${list}-${current}`}
        placeholder="Page, project, branch or action"
        autoComplete="off"
        value={typed}
        onChange={({ target }) => type(target.value)}
        onKeyDown={onKey}
      />
      <ul id={list} role="listbox" aria-label="Found" ref={shown}>
        {entries.map((entry, index) => (
          // The field has the focus and takes the keys of all options.
          <li
            key={entry.id}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === current}
            onClick={() => go(entry)}
          >
            <span>{entry.title}</span> <small>{entry.about}</small>
          </li>
        ))}
      </ul>
    </>
  )
}

/** Projects and branches with a text in their name or id: branches of this project, or of the latest projects. */
function useFound({ projectId }: Here, search: string) {
  const projects = useQuery({
    queryKey: ['palette', 'projects', search],
    placeholderData: (before) => before,
    queryFn: async () =>
      (await call('GET /projects', { query: { limit: MAX_FOUND, ...(search !== '' && { search }) } })).projects,
  })
  const recent = useQuery({
    queryKey: ['palette', 'projects', ''],
    enabled: projectId === undefined,
    queryFn: async () => (await call('GET /projects', { query: { limit: MAX_FOUND } })).projects,
  })
  const among = projectId === undefined ? recent.data?.map(({ id }) => id) : [projectId]
  const branches = useQuery({
    queryKey: ['palette', 'branches', among, search],
    enabled: search !== '' && among !== undefined,
    placeholderData: (before) => before,
    queryFn: async () => {
      const lists = await Promise.all(
        (among ?? []).map(async (project_id) => {
          const query = { search, limit: MAX_FOUND }
          return (await call('GET /projects/:project_id/branches', { params: { project_id }, query })).branches
        }),
      )
      return lists.flat()
    },
  })
  const entries: Entry[] = [
    ...(search === '' ? [] : (branches.data ?? [])).map(({ project_id, id, name }) => ({
      id,
      title: name,
      about: `Branch ${id}`,
      href: `/projects/${project_id}/branches/${id}`,
    })),
    ...(projects.data ?? []).map(({ id, name }) => ({
      id,
      title: name,
      about: `Project ${id}`,
      href: `/projects/${id}`,
    })),
  ]
  return { entries, isSearching: projects.isFetching || branches.isFetching }
}
