// SPDX-License-Identifier: Apache-2.0
#include "tools/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <string_view>

#include "tools/option_values.h"

namespace fanout::tools {
namespace {

constexpr const char* kCommandsAllowed = "fanout takes train, bench or devices first (fanout --help tells more)";

// "train", "bench step".
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  const bool is_first = parent == nullptr || parent->get_parent() == nullptr;
  return is_first ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

// Refuses what no option or command of `command` took.
void check_rest(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining();
  if (rest.empty()) return;
  const bool is_option = rest[0].starts_with('-');
  const std::string name = is_option ? rest[0].substr(0, rest[0].find('=')) : rest[0];
  if (command.get_parent() == nullptr) {
    fail(fmt::format("unknown {} '{}'; {}", is_option ? "option" : "command", name, kCommandsAllowed));
  }
  if (!is_option && command.get_name() == "bench") {
    fail(fmt::format("unexpected argument '{}'; fanout bench takes {} first", name, subject_names()));
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) names.push_back("--" + option->get_lnames().front());
  fail(fmt::format("{} '{}'; fanout {} takes {}{}", is_option ? "unknown option" : "unexpected argument", name,
                   full_name(command), is_option ? "" : "options only: ", fmt::join(names, ", ")));
}

// CLI11 takes the next argument as the value of "--name=", so that form is refused first.
void check_empty_values(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      fail(fmt::format("{} has no value after the equals sign", argument));
    }
  }
}

// CLI11's text for an option at the end of the line begins with the option's name.
[[noreturn]] void fail_missing_value(const std::string& problem) {
  const std::string name = problem.substr(0, problem.find(':'));
  for (const auto options : {train_options(), bench_options()}) {
    for (const OptionText* option : options) {
      if (name == option->name) fail(fmt::format("{} has no value; expected {}", name, option->expected));
    }
  }
  fail(problem);
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Trains neural networks on several devices of one machine, and shows how.", "fanout");
  app.set_help_flag("-h,--help", "show this help");
  app.set_version_flag("--version", "fanout " FANOUT_VERSION, "show the version");
  app.require_subcommand(0, 1);
  app.allow_extras();
  app.get_formatter()->column_width(26);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("OPTIONS", "OPTION...");
  const CLI::App* train = add_train(app)->group("Commands");
  const CLI::App* bench = add_bench(app)->group("Commands");
  const CLI::App* devices = app.add_subcommand("devices", "List the devices of this machine")->group("Commands");
  app.footer("fanout COMMAND --help shows a command's options.");  // last, since commands inherit it

  check_empty_values(argc, argv);
  try {
    app.parse(std::max(argc, 1), argv);  // CLI11 counts on the name at argv[0]
  } catch (const CLI::CallForHelp&) {
    return HelpText{app.help()};
  } catch (const CLI::CallForVersion& version) {
    return VersionText{std::string(version.what()) + "\n"};
  } catch (const CLI::ArgumentMismatch& error) {
    fail_missing_value(error.what());
  } catch (const CLI::ParseError& error) {
    fail(error.what());
  }
  check_given(*train, train_options());
  check_rest(app);
  for (const CLI::App* command : app.get_subcommands()) {
    check_rest(*command);
    for (const CLI::App* subject : command->get_subcommands()) check_rest(*subject);
  }
  if (train->parsed()) return read_train(*train);
  if (bench->parsed()) return read_bench(*bench);
  if (devices->parsed()) return DevicesOptions{};
  fail(fmt::format("no command; {}", kCommandsAllowed));
}

}  // namespace fanout::tools
