import { useSearchParams } from 'wouter'
import { OPERATORS, type PageOf, type RowFilter, type TableColumn } from './browse.ts'

type Sort = PageOf['sort']

/** The filter and the order of a table's rows, which the address holds. */
export function useRowOrder(columns: readonly TableColumn[]) {
  const [address, setAddress] = useSearchParams()
  const given = (name: string) => address.get(name) ?? ''
  const isColumn = (text: string) => columns.some(({ name }) => name === text)
  const filter: RowFilter | undefined =
    isColumn(given('column')) && Object.hasOwn(OPERATORS, given('condition'))
      ? { column: given('column'), operator: given('condition'), value: given('value') }
      : undefined
  const sort: Sort = isColumn(given('sort'))
    ? { column: given('sort'), descending: given('order') === 'descending' }
    : undefined
  const set = (fields: Readonly<Record<string, string | undefined>>) =>
    setAddress((before) => {
      for (const [name, value] of Object.entries(fields))
        if (value === undefined) before.delete(name)
        else before.set(name, value)
      return before
    })
  return {
    filter,
    sort,
    setFilter: (next: RowFilter | undefined) =>
      set({ column: next?.column, condition: next?.operator, value: next?.value }),
    setSort: (next: Sort) => set({ sort: next?.column, order: next && (next.descending ? 'descending' : 'ascending') }),
  }
}
