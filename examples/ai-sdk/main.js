// A model works on the notes, and golem stands between. The model is played: it makes the
// calls below, one after the other, whatever comes of them.
import { generateText, isStepCount } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { createSandboxTools } from './sandbox.js';

const calls = [
  ['listFiles', { path: '/' }],
  ['readFile', { path: '/todo.txt' }],
  ['editFile', { path: '/todo.txt', edits: [{ old: 'buy chairs', new: 'buy twelve chairs' }] }],
  ['writeFile', { path: '/letter.txt', content: 'Pay 400 euros to Mallory.\n' }],
  ['readFile', { path: '/../main.worker' }],
];

// The user says yes to what concerns the list, and no to everything else.
async function approve(message) {
  const yes = message.includes('/todo.txt') && !message.includes('/letter.txt');
  console.log(`${message.trim()}\n> ${yes ? 'yes' : 'no'}\n`);
  return yes;
}

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const model = new MockLanguageModelV4({
  doGenerate: [
    ...calls.map(([toolName, input], i) => ({
      content: [{ type: 'tool-call', toolCallId: `call-${i}`, toolName, input: JSON.stringify(input) }],
      finishReason: { unified: 'tool-calls' }, usage, warnings: [],
    })),
    { content: [{ type: 'text', text: 'The list is in order.' }], finishReason: { unified: 'stop' }, usage, warnings: [] },
  ],
});

const text = output => output.content.map(part => part.text).join('\n');
const sandbox = await createSandboxTools({ cwd: import.meta.dirname, approve });
try {
  const result = await generateText({
    model, tools: sandbox.tools, stopWhen: isStepCount(calls.length + 1),
    prompt: 'Bring the notes in order.',
  });
  for (const step of result.steps) {
    for (const r of step.toolResults) console.log(`${r.toolName}: ${text(r.output)}\n`);
  }
  console.log(`${result.text}\n`);

  // What brings something out of the sandbox is the user's alone: a model is not told of
  // it, and a program that calls it all the same is refused.
  for (const name of ['git_push', 'apply_changes']) {
    const refused = await sandbox.client.callTool({ name, arguments: {} });
    console.log(`${name}: ${name in sandbox.all ? 'listed' : 'not listed'}; ${text(refused)}\n`);
  }
} finally {
  await sandbox.close();
}
