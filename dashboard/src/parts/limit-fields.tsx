/** Fields of a form with the limits of a key or a team. */
import type { KeyRecord } from '../key-records.ts'
import { keysWords } from '../words/keys.ts'

const { form: text } = keysWords

type Limits = KeyRecord['limits']

/** The number of a field; null: it is empty. */
export const numberIn = (data: FormData, name: string): number | null => {
  const value = String(data.get(name) ?? '').trim()
  return value === '' ? null : Number(value)
}

/** The limits that the fields state. */
export const limitsIn = (data: FormData): Limits => ({
  requestsPerMinute: numberIn(data, 'rpm'),
  tokensPerMinute: numberIn(data, 'tpm'),
  concurrent: numberIn(data, 'concurrent'),
})

export const LimitFields = ({ limits }: { readonly limits: Limits | undefined }) => (
  <div class="fields">
    {(
      [
        ['rpm', limits?.requestsPerMinute],
        ['tpm', limits?.tokensPerMinute],
        ['concurrent', limits?.concurrent],
      ] as const
    ).map(([name, value]) => (
      <label key={name} class="field">
        {text[name]}
        <input
          type="number"
          name={name}
          min="0"
          max="1000000000"
          step="1"
          placeholder={text.noLimit}
          defaultValue={value ?? ''}
        />
      </label>
    ))}
  </div>
)
