export default {
	base: './',
	worker: {format: 'es'}, // the Worker of the sandbox is a module
	optimizeDeps: {exclude: ['@golem-forge/browser']}, // it loads its Worker and golem.wasm itself
};
