import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type Completion,
  type CompletionContext,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { PostgreSQL, type SQLNamespace, sql } from '@codemirror/lang-sql'
import { bracketMatching, HighlightStyle, syntaxHighlighting, syntaxTree } from '@codemirror/language'
import { Compartment, EditorState, StateEffect, StateField } from '@codemirror/state'
import { Decoration, type DecorationSet, drawSelection, EditorView, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import type { SchemaNames } from './schema.ts'

/** A part of the text, with its place there. */
export interface TextPart {
  readonly text: string
  readonly from: number
}

export interface SqlEditor {
  readonly view: EditorView
  /** The selection, or else the whole text. */
  readonly selected: () => TextPart
  /** The selection, or else the statement at the cursor. */
  readonly statement: () => TextPart
  readonly setNames: (names: SchemaNames) => void
  /** Marks the word at a place, and goes there; without a place removes the mark. */
  readonly markError: (at?: number) => void
  readonly setText: (text: string) => void
  readonly close: () => void
}

interface EditorOptions {
  readonly parent: HTMLElement
  readonly text: string
  readonly onChange: (text: string) => void
  readonly onRun: () => void
}

const setError = StateEffect.define<{ from: number; to: number } | undefined>()
const errorMark = Decoration.mark({ class: 'cm-wrong' })

const errorField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    let next = transaction.docChanged ? Decoration.none : marks
    for (const effect of transaction.effects)
      if (effect.is(setError))
        next = effect.value ? Decoration.set([errorMark.range(effect.value.from, effect.value.to)]) : Decoration.none
    return next
  },
  provide: (field) => EditorView.decorations.from(field),
})

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--accent)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--busy)' },
  { tag: [tags.lineComment, tags.blockComment], color: 'var(--quiet)', fontStyle: 'italic' },
  { tag: tags.typeName, color: 'var(--accent)' },
])

const theme = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--surface)', fontSize: '13px' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-scroller': { fontFamily: 'ui-monospace, monospace', lineHeight: '1.6', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--ground)', color: 'var(--quiet)', borderRight: '1px solid var(--line)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 30%, transparent)',
  },
  '.cm-matchingBracket': { backgroundColor: 'color-mix(in srgb, var(--accent) 25%, transparent)' },
  '.cm-wrong': { textDecoration: 'underline wavy var(--danger)', textUnderlineOffset: '3px' },
  '.cm-tooltip': { backgroundColor: 'var(--surface)', border: '1px solid var(--line)', color: 'var(--text)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    backgroundColor: 'var(--accent)',
    color: 'var(--on-accent)',
  },
})

/**
 * Replaces a selection by typed text. Chromium itself would keep the look of what it replaces by attributes of style,
 * which the page's policy refuses.
 */
const replacing = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main
    const { data: text } = event
    if (event.inputType !== 'insertText' || text === null || empty || view.composing) return false
    event.preventDefault()
    const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: 'input.type' })
    const isHandled = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, text, insert))
    if (!isHandled) view.dispatch(insert())
    return true
  },
})

/**
 * An editor for SQL. It lives in a shadow root: there its styles are constructed style sheets, which the page's policy
 * allows, while elements of style would be refused.
 */
export function createEditor({ parent, text, onChange, onRun }: EditorOptions): SqlEditor {
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: 'open' })
  root.replaceChildren()
  const language = new Compartment()
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        keymap.of([{ key: 'Mod-Enter', run: handled(onRun), preventDefault: true }]),
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ icons: false }),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap]),
        language.of(sql({ dialect: PostgreSQL })),
        syntaxHighlighting(colours),
        errorField,
        theme,
        replacing,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': 'SQL' }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange(update.state.doc.toString())
        }),
      ],
    }),
  })

  const selection = (): TextPart | undefined => {
    const { from, to } = view.state.selection.main
    return from === to ? undefined : { text: view.state.sliceDoc(from, to), from }
  }

  return {
    view,
    selected: () => selection() ?? { text: view.state.doc.toString(), from: 0 },
    statement: () => selection() ?? statementAt(view.state, view.state.selection.main.head),
    setNames: (names) => view.dispatch({ effects: language.reconfigure(languageWith(names)) }),
    markError(at) {
      if (at === undefined) return view.dispatch({ effects: setError.of(undefined) })
      const from = Math.min(at, Math.max(0, view.state.doc.length - 1))
      const to = Math.min(view.state.doc.length, view.state.wordAt(from)?.to ?? from + 1)
      if (to <= from) return
      view.dispatch({
        effects: [setError.of({ from, to }), EditorView.scrollIntoView(from)],
        selection: { anchor: from },
      })
    },
    setText: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
    close: () => view.destroy(),
  }
}

function languageWith({ tables, functions }: SchemaNames) {
  const schema: Record<string, Record<string, string[]>> = Object.create(null) as typeof schema
  for (const [key, columns] of tables) {
    const [inSchema = '', table = ''] = key.split('\0')
    ;(schema[inSchema] ??= Object.create(null) as Record<string, string[]>)[table] = [...columns]
  }
  const completions: Completion[] = functions.map((label) => ({ label, type: 'function', boost: -50 }))
  const support = sql({ dialect: PostgreSQL, schema: schema as SQLNamespace, defaultSchema: 'public' })
  const ofFunctions = PostgreSQL.language.data.of({
    autocomplete: (context: CompletionContext) => {
      const word = context.matchBefore(/\w+/)
      return word && word.text.length > 1 ? { from: word.from, options: completions, validFor: /^\w*$/ } : null
    },
  })
  return [support, ofFunctions]
}

/** A command of the editor that leaves no key for others. */
const handled = (work: () => void) => (): boolean => {
  work()
  return true
}

/** The statement at a place, or the last one before it. */
function statementAt(state: EditorState, at: number): TextPart {
  let found: TextPart = { text: state.doc.toString(), from: 0 }
  for (let node = syntaxTree(state).topNode.firstChild; node && node.from <= at; node = node.nextSibling)
    if (node.name === 'Statement') found = { text: state.sliceDoc(node.from, node.to), from: node.from }
  return found
}
