import { isObject, list, object, parseObject, text } from '../../src/core/json.ts'

/**
 * Recorded chat answers (a stream's lines, or one body) as chat clients receive them: a message or a delta with a
 * `reasoning` text and no `reasoning_content` has both, and no other byte differs.
 */
export const bothNames = (wire: string): string =>
  wire
    .split('\n')
    .map((line) => {
      const body = parseObject(line.replace(/^data: ?/, ''))
      const lacks = list(body?.choices).some((choice) =>
        [object(choice)?.delta, object(choice)?.message].some(
          (said) => isObject(said) && text(said.reasoning) && !text(said.reasoning_content),
        ),
      )
      return lacks ? line.replace(/"reasoning":\s*("(?:[^"\\]|\\.)*")/, '"reasoning_content":$1,$&') : line
    })
    .join('\n')
