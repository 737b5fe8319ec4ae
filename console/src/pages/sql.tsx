import { useEffect, useRef, useState } from 'react'
import { NoCompute } from '../parts/no_compute.tsx'
import { Failure, Loading } from '../parts/states.tsx'
import { createEditor, type SqlEditor, type TextPart } from '../sql/editor.ts'
import { forgetRuns, keepRun, keepText, keptText, pastRuns } from '../sql/kept.ts'
import { PlaceFields, type PlaceChoice, useSqlPlace } from '../sql/place.tsx'
import { Results } from '../sql/results.tsx'
import { useRun } from '../sql/run.ts'
import { useSchemaNames } from '../sql/schema.ts'
import '../sql/sql.css'
import type { BranchTabProps } from './branch.tsx'

/** SQL in a database of a branch, as one of its roles. */
export function Sql({ branch, endpoint }: BranchTabProps) {
  const choice = useSqlPlace(branch)
  if (!endpoint) return <NoCompute branch={branch} what="SQL" />
  if (choice.read.isPending) return <Loading what="Reading databases and roles" />
  if (choice.read.error && !choice.read.data)
    return <Failure error={choice.read.error} retry={() => void choice.read.refetch()} />
  return <Editor key={branch.id} choice={choice} isAwake={endpoint.current_state === 'active'} />
}

function Editor({ choice, isAwake }: { readonly choice: PlaceChoice; readonly isAwake: boolean }) {
  const { place } = choice
  const { branch } = place
  const [readOnly, setReadOnly] = useState(false)
  const { answer, run, cancel } = useRun()
  const editor = useRef<SqlEditor>(undefined)
  const [isReady, setReady] = useState(false)
  const names = useSchemaNames(place, isAwake)

  async function runPart({ text, from }: TextPart, prefix = '', isReadOnly = readOnly): Promise<void> {
    if (text.trim() === '') return
    editor.current?.markError()
    keepRun(branch.id, text)
    const { error } = await run(place, prefix + text, isReadOnly)
    const position = error?.report?.position
    if (position === undefined) return
    // Postgres counts code points, the editor UTF-16 units.
    const units =
      Array.from(prefix + text)
        .slice(0, position - 1)
        .join('').length - prefix.length
    editor.current?.markError(from + Math.max(0, units))
  }

  const runSelected = () => void (editor.current && runPart(editor.current.selected()))
  const explain = (options: string, isReadOnly: boolean) => () =>
    void (editor.current && runPart(editor.current.statement(), `EXPLAIN (${options}FORMAT JSON) `, isReadOnly))

  const latest = useRef(runSelected)
  latest.current = runSelected
  const parent = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (!parent.current) return undefined
    const made = createEditor({
      parent: parent.current,
      text: keptText(branch.id),
      onChange: (text) => keepText(branch.id, text),
      onRun: () => latest.current(),
    })
    editor.current = made
    setReady(true)
    return () => {
      setReady(false)
      made.close()
    }
  }, [branch.id])
  useEffect(() => {
    if (isReady && names.data) editor.current?.setNames(names.data)
  }, [isReady, names.data])

  return (
    <div className="sql">
      <div className="toolbar">
        <PlaceFields choice={choice} />
        <label className="check">
          <input type="checkbox" checked={readOnly} onChange={({ target }) => setReadOnly(target.checked)} /> Read-only
        </label>
      </div>
      <div className="editor" ref={parent} />
      <div className="toolbar">
        <button type="button" className="main" disabled={answer.isRunning} onClick={runSelected}>
          Run
        </button>
        <button type="button" disabled={!answer.isRunning} onClick={cancel}>
          Cancel
        </button>
        <button type="button" disabled={answer.isRunning} onClick={explain('', true)}>
          Explain
        </button>
        <button
          type="button"
          disabled={answer.isRunning}
          title="Runs the statement, with its effects, and measures it"
          onClick={explain('ANALYZE, BUFFERS, ', readOnly)}
        >
          Run and explain
        </button>
        <History branchId={branch.id} choose={(sql) => editor.current?.setText(sql)} />
        <small>Ctrl or ⌘ and Enter runs the selection, or all.</small>
      </div>
      <Results answer={answer} />
    </div>
  )
}

function History({ branchId, choose }: { readonly branchId: string; readonly choose: (sql: string) => void }) {
  const [runs, setRuns] = useState(() => pastRuns(branchId))
  const details = useRef<HTMLDetailsElement>(null)
  return (
    <details className="history" ref={details} onToggle={() => setRuns(pastRuns(branchId))}>
      <summary>History</summary>
      <div>
        {runs.length === 0 && <p>What you run in this browser is listed here, texts with passwords left out.</p>}
        {runs.map(({ sql, at }) => (
          <button
            key={at + sql}
            type="button"
            title={sql}
            onClick={() => {
              choose(sql)
              if (details.current) details.current.open = false
            }}
          >
            <code>{sql}</code> <small>{new Date(at).toLocaleString()}</small>
          </button>
        ))}
        {runs.length > 0 && (
          <button
            type="button"
            className="dangerous"
            onClick={() => {
              forgetRuns(branchId)
              setRuns([])
            }}
          >
            Clear history
          </button>
        )}
      </div>
    </details>
  )
}
