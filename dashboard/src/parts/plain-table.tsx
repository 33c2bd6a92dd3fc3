/** A short table; below 640 px its rows are cards. */
import type { ComponentChildren } from 'preact'
import { isNarrow } from '../store.ts'

export type PlainColumn<Row> = {
  /** Its heading; empty: buttons. */
  readonly name: string
  readonly cell: (row: Row) => ComponentChildren
}

type PlainTableProps<Row> = {
  readonly label: string
  /** The first one names the row. */
  readonly columns: readonly PlainColumn<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
}

export const PlainTable = <Row,>({ label, columns, rows, keyOf }: PlainTableProps<Row>) =>
  isNarrow.value ? (
    <ul class="plain-cards" aria-label={label}>
      {rows.map((row) => (
        <li key={keyOf(row)} class="panel">
          {columns.map(({ name, cell }, at) =>
            at === 0 ? (
              <strong key={name}>{cell(row)}</strong>
            ) : (
              <div key={name}>
                {name !== '' && <span class="small dim">{name} </span>}
                {cell(row)}
              </div>
            ),
          )}
        </li>
      ))}
    </ul>
  ) : (
    <table class="table plain-table" data-columns="narrow" aria-label={label}>
      <thead>
        <tr>
          {columns.map(({ name }) =>
            name === '' ? (
              <td key={name} />
            ) : (
              <th key={name} scope="col">
                {name}
              </th>
            ),
          )}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map(({ name, cell }) => (
              <td key={name}>{cell(row)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
