// Reads what the fake must know of a kernel out of its text: the buffers that it needs, under which function
// constants, and its largest threadgroup.
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/metal/fake/kernel_text.h"

namespace fake {

namespace {

std::string word_at(const std::string& s, size_t at) {
	size_t end = at;
	while (end < s.size() && (isalnum(static_cast<unsigned char>(s[end])) || s[end] == '_')) end++;
	return s.substr(at, end - at);
}

// The word before `at`.
std::string word_before(const std::string& s, size_t at) {
	while (at > 0 && isspace(static_cast<unsigned char>(s[at - 1]))) at--;
	size_t begin = at;
	while (begin > 0 && (isalnum(static_cast<unsigned char>(s[begin - 1])) || s[begin - 1] == '_')) begin--;
	return s.substr(begin, at - begin);
}

std::string without_comments(const std::string& s) {
	std::string out;
	for (size_t i = 0; i < s.size(); i++) {
		if (s[i] == '/' && i + 1 < s.size() && s[i + 1] == '/')
			while (i < s.size() && s[i] != '\n') i++;
		out += i < s.size() ? s[i] : '\n';
	}
	return out;
}

}  // namespace

kernel_text read_source(const std::string& commented) {
	const std::string s = without_comments(commented);
	kernel_text out;
	std::map<std::string, int> constants;
	const std::string constant = "[[function_constant(", buffer = "[[buffer(", threads = "max_total_threads_per_threadgroup(";
	for (size_t at = s.find(constant); at != std::string::npos; at = s.find(constant, at + 1)) {
		const int index = atoi(s.c_str() + at + constant.size());
		out.constants |= 1ull << index;
		constants[word_before(s, at)] = index;
	}
	for (size_t at = s.find(buffer); at != std::string::npos; at = s.find(buffer, at + 1)) {
		const size_t begin = s.find_last_of(",(", at), end = s.find("]]", at);
		const std::string declared = s.substr(begin, at - begin), attribute = s.substr(at, end - at);
		argument a{uint32_t(atoi(s.c_str() + at + buffer.size())), -1, declared.find("const") == std::string::npos};
		if (size_t c = attribute.find("function_constant("); c != std::string::npos) a.constant = constants.count(word_at(attribute, c + 18)) ? constants[word_at(attribute, c + 18)] : 63;
		out.arguments.push_back(a);
	}
	if (size_t at = s.find(threads); at != std::string::npos) {
		std::string value = word_at(s, at + threads.size());
		if (size_t given = s.find("uint " + value + " = "); given != std::string::npos) value = word_at(s, given + 8 + value.size());
		out.threads_max = uint32_t(atoi(value.c_str()));
	}
	return out;
}

}  // namespace fake
