/** What is entered in the playground. */
import type { ComponentChild } from 'preact'
import { useId } from '../../parts/use-id.ts'
import { type FieldName, STYLES } from '../../playground/request.ts'
import { change, isChecked, isRendered, setRendered, settings, wrong } from '../../playground/state.ts'
import { toast } from '../../store.ts'
import { playground as texts } from '../../words/playground.ts'

/** Whether a field is marked as wrong. An empty prompt is only marked after an attempt to send. */
const isWrong = (field: FieldName): boolean => wrong.value.includes(field) && (field !== 'prompt' || isChecked.value)

type TextName = 'prompt' | 'system' | 'tools' | 'schema' | 'earlier'

const hintOf = (name: TextName): string | null => {
  if (name === 'tools') return texts.toolsHint
  if (name === 'schema') return texts.schemaHint
  return name === 'earlier' ? texts.earlierHint : null
}

const TextField = ({ name, rows }: { readonly name: TextName; readonly rows: number }) => {
  const id = useId()
  const bad = name !== 'system' && isWrong(name)
  const hint = hintOf(name)
  const described = bad || hint !== null ? `${id}-about` : undefined
  return (
    <div class="field playground-field">
      <label for={id}>{texts.fields[name]}</label>
      <textarea
        id={id}
        rows={rows}
        class={name === 'prompt' || name === 'system' ? '' : 'mono'}
        dir="auto"
        spellcheck={name === 'prompt' || name === 'system'}
        placeholder={name === 'prompt' ? texts.promptHint : undefined}
        aria-invalid={bad || undefined}
        aria-describedby={described}
        value={settings.value[name]}
        onInput={({ currentTarget }) => change({ [name]: currentTarget.value })}
      />
      {described !== undefined && (
        <p id={described} class={bad ? 'bad small' : 'dim small'}>
          {bad ? texts.wrong[name] : hint}
        </p>
      )}
    </div>
  )
}

const NumberField = ({ name }: { readonly name: 'temperature' | 'maxTokens' }) => {
  const id = useId()
  const bad = isWrong(name)
  return (
    <div class="playground-number">
      <label for={id}>{texts.fields[name]}</label>
      <input
        id={id}
        type="text"
        inputMode="decimal"
        autocomplete="off"
        aria-invalid={bad || undefined}
        aria-describedby={bad ? `${id}-about` : undefined}
        value={settings.value[name]}
        onInput={({ currentTarget }) => change({ [name]: currentTarget.value.trim() })}
      />
      {bad && (
        <p id={`${id}-about`} class="bad small">
          {texts.wrong[name]}
        </p>
      )}
    </div>
  )
}

/** Bytes of an image. */
const MOST_IMAGE = 5_000_000

const readImage = async (file: File | undefined): Promise<void> => {
  if (!file) return
  if (!file.type.startsWith('image/') || file.size > MOST_IMAGE) {
    toast(texts.imageWrong, { tone: 'bad' })
    return
  }
  const reader = new FileReader()
  reader.onload = () => change({ image: String(reader.result) })
  reader.readAsDataURL(file)
}

const ImageField = () => {
  const { image } = settings.value
  return (
    <div class="field playground-field">
      <label>
        {texts.image}{' '}
        <input
          type="file"
          accept="image/*"
          onChange={({ currentTarget }) => void readImage(currentTarget.files?.[0])}
        />
      </label>
      {image !== null && (
        <div class="row">
          <img class="playground-image" src={image} alt={texts.imageAlt} />
          <button type="button" class="button small" onClick={() => change({ image: null })}>
            {texts.removeImage}
          </button>
        </div>
      )}
    </div>
  )
}

const Fold = ({
  title,
  isUsed,
  children,
}: {
  readonly title: string
  readonly isUsed: boolean
  readonly children: ComponentChild
}) => (
  <details class="playground-fold" open={isUsed}>
    <summary>{title}</summary>
    {children}
  </details>
)

export const Fields = ({ children }: { readonly children: ComponentChild }) => {
  const { system, tools, schema, earlier, image, style, stream } = settings.value
  return (
    <div class="playground-entry">
      <TextField name="prompt" rows={3} />
      <div class="playground-settings">
        <label class="playground-number">
          {texts.style}
          <select
            value={style}
            onChange={({ currentTarget }) => {
              const next = STYLES.find((one) => one === currentTarget.value)
              if (next) change({ style: next })
            }}
          >
            {STYLES.map((one) => (
              <option key={one} value={one}>
                {texts.styles[one]}
              </option>
            ))}
          </select>
        </label>
        <NumberField name="temperature" />
        <NumberField name="maxTokens" />
        <label class="check playground-stream">
          <input
            type="checkbox"
            checked={stream}
            onChange={({ currentTarget }) => change({ stream: currentTarget.checked })}
          />
          {texts.stream}
        </label>
        <label class="check playground-stream">
          <input
            type="checkbox"
            checked={isRendered.value}
            onChange={({ currentTarget }) => setRendered(currentTarget.checked)}
          />
          {texts.rendered}
        </label>
        {children}
      </div>
      <div class="playground-folds">
        <Fold title={texts.fields.system} isUsed={system !== ''}>
          <TextField name="system" rows={3} />
        </Fold>
        <Fold title={texts.fields.tools} isUsed={tools !== ''}>
          <TextField name="tools" rows={6} />
        </Fold>
        <Fold title={texts.fields.schema} isUsed={schema !== ''}>
          <TextField name="schema" rows={6} />
        </Fold>
        <Fold title={texts.image} isUsed={image !== null}>
          <ImageField />
        </Fold>
        <Fold title={texts.fields.earlier} isUsed={earlier !== ''}>
          <TextField name="earlier" rows={6} />
        </Fold>
      </div>
    </div>
  )
}
